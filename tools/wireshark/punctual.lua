-- Wireshark dissector of punctual's packets (docs/wire.md).
--
--   wireshark -X lua_script:tools/wireshark/punctual.lua capture.pcapng
--
-- Or copy it into the folder of personal Lua plugins (Help, About, Folders). It dissects UDP port
-- 48630, and recognises datagrams on other ports by their first byte and their header check. Where
-- another protocol has the port, give -o udp.try_heuristic_first:TRUE.

local ENVELOPE_BYTES = 20
local TAG_BYTES = 16
local MAGIC_VERSION = 0xd2
local ANSWER_BYTES = 12
local ANSWER_MAGIC_VERSION = 0xd0
local GENERIC = 31
local DEFAULT_PORT = 48630

local punctual = Proto("punctual", "punctual transport")

local kinds = {
  [0] = "data", [1] = "ack", [2] = "nack", [3] = "pull", [4] = "probe", [8] = "retry",
  [9] = "token", [10] = "ended", [11] = "cancel", [12] = "ping", [13] = "pong",
  [14] = "challenge", [15] = "wait",
}
local transports = { [1] = "ndp", [2] = "d3", [3] = "rcpdc", [4] = "pdq", [GENERIC] = "generic" }
local ends = {
  [0] = "done", [1] = "gone", [2] = "cancelled", [3] = "not listening", [4] = "too large",
  [5] = "refused", [6] = "other version", [7] = "other MTU",
}
local purposes = { [0] = "message", [1] = "request", [2] = "response" }
local path_messages = { [1] = "ask or offer", [2] = "join or joined" }
local join_answers = { [0] = "send the token back", [1] = "joined", [2] = "ask again" }
local contents = { [0] = "data", [1] = "acknowledgement", [2] = "neither" }

-- Fields by name, as in the tables of docs/wire.md. A field is { name, type, first byte, bytes,
-- options }. The envelope has a field `only` with some flags, or `unless` they are set.
local envelope = {
  { "magic", "uint8", 0, 1, base.HEX, nil, 0xf0 },
  { "version", "uint8", 0, 1, base.DEC, nil, 0x0f },
  { "header_words", "uint8", 1, 1, base.DEC, nil, 0xf0 },
  { "kind", "uint8", 1, 1, base.DEC, kinds, 0x0f },
  { "transport", "uint8", 2, 1, base.DEC, transports, 0xf8 },
  { "class", "uint8", 2, 1, base.DEC, nil, 0x07 },
  { "flags.switch_path", "bool", 3, 1, 8, nil, 0x80 },
  { "flags.reverse_path", "bool", 3, 1, 8, nil, 0x40 },
  { "flags.keyed", "bool", 3, 1, 8, nil, 0x20 },
  { "flags.syn", "bool", 3, 1, 8, nil, 0x10 },
  { "flags.bounced", "bool", 3, 1, 8, nil, 0x08 },
  { "flags.trimmed", "bool", 3, 1, 8, nil, 0x04 },
  { "flags.trimmable", "bool", 3, 1, 8, nil, 0x02 },
  { "flags.to_sender", "bool", 3, 1, 8, nil, 0x01 },
  { "flow", "uint32", 4, 4, base.HEX },
  { "payload_bytes", "uint16", 8, 2, base.DEC },
  { "header_check", "uint16", 10, 2, base.HEX },
  { "payload_check", "uint32", 12, 4, base.HEX, unless = 0x20 },
  { "number", "uint32", 12, 4, base.DEC, only = 0x20 },
  { "path", "uint16", 16, 2, base.DEC },
  { "incarnation", "uint16", 18, 2, base.HEX },
}

-- The answer to a datagram of another version: fields that the envelope does not have.
local version_answer = {
  { "version_answer.reads", "uint8", 1, 1, base.DEC },
  { "version_answer.reserved", "uint16", 2, 2, base.HEX },
  { "version_answer.flow", "uint32", 4, 4, base.HEX },
  { "version_answer.check", "uint16", 8, 2, base.HEX },
  { "version_answer.padding", "uint16", 10, 2, base.HEX },
}

local ndp = {
  { "ndp.urgency", "uint8", 0, 1, base.DEC, nil, 0xe0 },
  { "ndp.no_room", "bool", 0, 1, 8, nil, 0x08 },
  { "ndp.last", "bool", 0, 1, 8, nil, 0x04 },
  { "ndp.has_pull", "bool", 0, 1, 8, nil, 0x01 },
  { "ndp.reserved", "uint8", 0, 1, base.HEX, nil, 0x12 },
  { "ndp.seq", "uint24", 1, 3, base.DEC },
  { "ndp.cumulative", "uint32", 4, 4, base.DEC },
  { "ndp.sent_at", "uint32", 8, 4, base.DEC },
  { "ndp.pull", "uint32", 12, 4, base.DEC },
}

local d3 = {
  { "d3.seq", "uint32", 0, 4, base.DEC },
  { "d3.ack", "uint32", 4, 4, base.DEC },
  { "d3.timestamp", "uint32", 8, 4, base.DEC },
  { "d3.request", "uint16", 12, 2, base.DEC },
  { "d3.data", "bool", 14, 1, 8, nil, 0x40 },
  { "d3.feedback_flag", "bool", 14, 1, 8, nil, 0x10 },
  { "d3.request_flag", "bool", 14, 1, 8, nil, 0x08 },
  { "d3.end", "bool", 14, 1, 8, nil, 0x04 },
  { "d3.fin", "bool", 14, 1, 8, nil, 0x02 },
  { "d3.reserved_flags", "uint8", 14, 1, base.HEX, nil, 0xa1 },
  { "d3.reserved", "uint8", 15, 1, base.HEX },
  { "d3.scale", "uint8", 16, 1, base.DEC },
  { "d3.desired", "uint8", 17, 1, base.DEC },
  { "d3.overflow", "bool", 18, 1, 8, nil, 0x80 },
  { "d3.important", "bool", 18, 1, 8, nil, 0x40 },
  { "d3.length", "uint8", 18, 1, base.DEC, nil, 0x38 },
  { "d3.index", "uint8", 18, 1, base.DEC, nil, 0x07 },
  { "d3.granted", "bytes", 19, 6, base.SPACE },
  { "d3.desired_before", "uint8", 25, 1, base.DEC },
  { "d3.granted_before", "bytes", 26, 6, base.SPACE },
  { "d3.feedback", "bytes", 32, 6, base.SPACE },
  { "d3.padding", "uint16", 38, 2, base.HEX },
}

local pdq = {
  { "pdq.seq", "uint32", 0, 4, base.DEC },
  { "pdq.time", "uint32", 4, 4, base.DEC },
  { "pdq.rtt", "uint32", 8, 4, base.DEC },
  { "pdq.expected", "uint32", 12, 4, base.DEC },
  { "pdq.again", "bool", 16, 1, 8, nil, 0x20 },
  { "pdq.data", "bool", 16, 1, 8, nil, 0x10 },
  { "pdq.end", "bool", 16, 1, 8, nil, 0x04 },
  { "pdq.term", "bool", 16, 1, 8, nil, 0x02 },
  { "pdq.reserved_flags", "uint8", 16, 1, base.HEX, nil, 0xc9 },
  { "pdq.age", "uint8", 17, 1, base.DEC },
  { "pdq.held", "bool", 18, 1, 8, nil, 0x40 },
  { "pdq.reserved", "uint8", 18, 1, base.HEX, nil, 0xbf },
  { "pdq.subflow", "uint8", 19, 1, base.DEC },
  { "pdq.rate", "uint32", 20, 4, base.DEC },
  { "pdq.pauser", "uint32", 24, 4, base.DEC },
  { "pdq.deadline", "uint32", 28, 4, base.DEC },
}

local generic = {
  { "generic.number", "uint64", 0, 8, base.DEC },
  { "generic.below", "uint64", 8, 8, base.DEC },
  { "generic.wire_bytes", "uint16", 16, 2, base.DEC },
  { "generic.content", "uint8", 18, 1, base.DEC, contents },
  { "generic.reserved", "uint8", 19, 1, base.HEX },
}

-- The payload of the packet that opens a flow of D3, RCPdc or PDQ.
local opening = {
  { "opening.size", "uint64", 0, 8, base.DEC },
  { "opening.segment", "uint16", 8, 2, base.DEC },
  { "opening.reserved", "uint16", 10, 2, base.HEX },
}
local OPENING_BYTES = 12

-- The first bytes of a flow between endpoints.
local prologue = {
  { "prologue.version", "uint8", 0, 1, base.HEX },
  { "prologue.has_confirms", "bool", 1, 1, 8, nil, 0x80 },
  { "prologue.purpose", "uint8", 1, 1, base.DEC, purposes, 0x7f },
  { "prologue.incarnation", "uint16", 2, 2, base.HEX },
  { "prologue.service", "uint32", 4, 4, base.DEC },
  { "prologue.time_left", "uint64", 8, 8, base.DEC },
  { "prologue.id", "uint64", 16, 8, base.HEX },
  { "prologue.confirms", "uint32", 24, 4, base.HEX },
}
local PROLOGUE_BYTES = 28
local PROLOGUE_VERSION = 0xa2

-- Payloads of the host stack's packets.
local stack = {
  token = { { "stack.token", "bytes", 0, 16, base.SPACE } },
  uptime = { { "stack.uptime", "uint64", 0, 8, base.DEC } },
  ended = { { "stack.ended", "uint8", 0, 1, base.DEC, ends } },
  ping = { { "stack.ping", "uint64", 0, 8, base.DEC } },
  message = { { "paths.message", "uint8", 0, 1, base.DEC, path_messages } },
  padding = { { "paths.padding", "bytes", 0, 91, base.SPACE } },
  token_of_main = { { "paths.token", "bytes", 0, 16, base.SPACE } },
  token_of_source = { { "paths.own_token", "bytes", 0, 16, base.SPACE } },
  answer = { { "paths.answer", "uint8", 0, 1, base.DEC, join_answers } },
  family = { { "paths.family", "uint8", 0, 1, base.DEC } },
  ipv4 = { { "paths.ipv4", "ipv4", 0, 4 }, { "paths.unused", "bytes", 4, 12, base.SPACE } },
  ipv6 = { { "paths.ipv6", "ipv6", 0, 16 } },
  port = { { "paths.port", "uint16", 0, 2, base.DEC } },
}
local ADDRESS_BYTES = 19

-- The fields of each transport, by its number.
local of_transport = { [1] = ndp, [2] = d3, [3] = d3, [4] = pdq, [GENERIC] = generic }

local header_tag = ProtoField.bytes("punctual.header_tag", "header_tag", base.SPACE)
local payload = ProtoField.bytes("punctual.payload", "payload", base.SPACE)
local payload_tag = ProtoField.bytes("punctual.payload_tag", "payload_tag", base.SPACE)
local unknown = ProtoField.bytes("punctual.fields", "fields of an unknown transport", base.SPACE)

local registered = { header_tag, payload, payload_tag, unknown }
local groups = { envelope, version_answer, ndp, d3, pdq, generic, opening, prologue }
for _, fields in pairs(stack) do
  table.insert(groups, fields)
end
for _, fields in ipairs(groups) do
  for _, field in ipairs(fields) do
    local name, kind, _, _, display, values, mask = table.unpack(field)
    local make = ProtoField[kind]
    field.proto = make("punctual." .. name, name, display, values, mask)
    table.insert(registered, field.proto)
  end
end
punctual.fields = registered

local bad_check = ProtoExpert.new(
  "punctual.header_check.bad", "header check does not match", expert.group.CHECKSUM,
  expert.severity.ERROR)
local trimmed = ProtoExpert.new(
  "punctual.trimmed", "trimmed: the payload is missing", expert.group.SEQUENCE,
  expert.severity.NOTE)
punctual.experts = { bad_check, trimmed }

-- CRC-16 with the CCITT polynomial, starting from all ones.
local crc_table = {}
for byte = 0, 255 do
  local crc = bit.lshift(byte, 8)
  for _ = 1, 8 do
    if bit.band(crc, 0x8000) ~= 0 then
      crc = bit.band(bit.bxor(bit.lshift(crc, 1), 0x1021), 0xffff)
    else
      crc = bit.band(bit.lshift(crc, 1), 0xffff)
    end
  end
  crc_table[byte] = crc
end

-- Whether the check at byte `check_at` of a header of this many bytes is right.
local function is_sound(tvb, header_bytes, check_at)
  local bytes = tvb(0, header_bytes):bytes()
  local crc = 0xffff
  for at = 0, header_bytes - 1 do
    local byte = bytes:get_index(at)
    if at == check_at or at == check_at + 1 then
      byte = 0
    end
    local index = bit.bxor(bit.rshift(crc, 8), byte)
    crc = bit.bxor(bit.band(bit.lshift(crc, 8), 0xffff), crc_table[index])
  end
  return crc == tvb(check_at, 2):uint()
end

-- The header's bytes without tag; nil if the datagram is none of ours or its capture ends before.
local function header_bytes_of(tvb)
  if tvb:len() < ENVELOPE_BYTES or tvb(0, 1):uint() ~= MAGIC_VERSION then
    return nil
  end
  local header_bytes = (bit.rshift(tvb(1, 1):uint(), 4) + 1) * 4
  if header_bytes < ENVELOPE_BYTES or tvb:len() < header_bytes then
    return nil
  end
  return header_bytes
end

-- Adds fields of a packet with these flags. A field has its bytes in the capture, or is left out.
local function add(tree, fields, tvb, flags)
  flags = flags or 0
  for _, field in ipairs(fields) do
    local at, bytes = field[3], field[4]
    local is_there = at + bytes <= tvb:len()
    if field.only and bit.band(flags, field.only) == 0 then
      is_there = false
    end
    if field.unless and bit.band(flags, field.unless) ~= 0 then
      is_there = false
    end
    if is_there then
      tree:add(field.proto, tvb(at, bytes))
    end
  end
end

-- Adds the fields of one packet after another, as long as the payload lasts.
local function adder(tree, tvb)
  local at = 0
  local function next_bytes(fields, bytes)
    if at + bytes > tvb:len() then
      return false
    end
    add(tree, fields, tvb(at, bytes):tvb())
    at = at + bytes
    return true
  end
  local function address()
    local of_family = { [4] = stack.ipv4, [6] = stack.ipv6 }
    local fields = at + ADDRESS_BYTES <= tvb:len() and of_family[tvb(at, 1):uint()]
    if not fields then
      return false
    end
    return next_bytes(stack.family, 1) and next_bytes(fields, 16) and next_bytes(stack.port, 2)
  end
  local function left()
    return tvb:len() - at
  end
  local function first()
    return tvb(at, 1):uint()
  end
  return { next = next_bytes, address = address, left = left, first = first }
end

-- Names the payload of a packet of the host stack. Returns how many bytes have no field.
local function add_stack(tree, kind, tvb)
  local payload = adder(tree, tvb)
  if kind == 8 or kind == 9 or kind == 14 then
    payload.next(stack.token, 16)
    if kind == 8 then
      payload.next(stack.uptime, 8)
    end
  elseif kind == 10 then
    payload.next(stack.ended, 1)
  elseif kind == 12 or kind == 13 then
    payload.next(stack.ping, 8)
    if payload.left() > 0 then
      local message = payload.first()
      payload.next(stack.message, 1)
      if message == 1 and kind == 12 then
        payload.next(stack.padding, 91)
      elseif message == 1 then
        payload.next(stack.token_of_main, 16)
        while payload.address() do end
      elseif message == 2 and kind == 12 then
        payload.next(stack.token_of_main, 16)
        payload.next(stack.token_of_source, 16)
        payload.address()
      elseif message == 2 then
        payload.next(stack.token_of_source, 16)
        payload.next(stack.answer, 1)
      end
    end
  end
  return payload.left()
end

-- Names the beginning of a payload. Returns how many bytes have no field.
local function add_payload(tree, number, kind, flags, fields, tvb)
  if kind >= 8 then
    return add_stack(tree, kind, tvb)
  end
  local payload = adder(tree, tvb)
  if kind == 4 and bit.band(flags, 0x10) ~= 0 then
    payload.next(opening, OPENING_BYTES)
  elseif kind == 0 and tvb:len() >= PROLOGUE_BYTES and tvb(0, 1):uint() == PROLOGUE_VERSION then
    -- The data of a flow begin with number 0.
    local first = number == 1 and fields:len() >= 4 and fields(1, 3):uint()
    if number >= 2 and number <= 4 and fields:len() >= 4 then
      first = fields(0, 4):uint()
    end
    if first == 0 then
      payload.next(prologue, PROLOGUE_BYTES)
    end
  end
  return payload.left()
end

-- The bytes of the packet at the start of a datagram, as its header says; nil if it is none of ours.
local function packet_bytes_of(tvb)
  local header_bytes = header_bytes_of(tvb)
  if header_bytes == nil then
    return nil
  end
  local flags = tvb(3, 1):uint()
  local tag = bit.band(flags, 0x20) ~= 0 and TAG_BYTES or 0
  local payload_bytes = tvb(8, 2):uint()
  if bit.band(flags, 0x04) ~= 0 or payload_bytes == 0 then
    return header_bytes + tag
  end
  return header_bytes + tag + payload_bytes + tag
end

-- Dissects one packet.
local function dissect(tvb, pinfo, root)
  local header_bytes = header_bytes_of(tvb)
  local number = bit.rshift(tvb(2, 1):uint(), 3)
  local transport = transports[number] or ("transport " .. number)
  local kind = bit.band(tvb(1, 1):uint(), 15)
  local flags = tvb(3, 1):uint()
  local is_keyed = bit.band(flags, 0x20) ~= 0
  local payload_bytes = tvb(8, 2):uint()
  local tags = is_keyed and TAG_BYTES or 0

  pinfo.cols.protocol = "PUNCTUAL"
  local tree = root:add(punctual, tvb(), "punctual " .. transport)
  add(tree, envelope, tvb(0, ENVELOPE_BYTES), flags)
  if not is_sound(tvb, header_bytes, 10) then
    tree:add_proto_expert_info(bad_check)
  end
  local fields = of_transport[number]
  local fields_tvb = nil
  if header_bytes > ENVELOPE_BYTES then
    local part = tvb(ENVELOPE_BYTES, header_bytes - ENVELOPE_BYTES)
    if fields then
      fields_tvb = part:tvb()
      add(tree, fields, fields_tvb)
    else
      tree:add(unknown, part)
    end
  end
  local at = header_bytes
  if is_keyed and at + TAG_BYTES <= tvb:len() then
    tree:add(header_tag, tvb(at, TAG_BYTES))
  end
  at = at + tags

  -- The reported length is that on the link, of which a capture may have less.
  local carried = tvb:reported_len() - at
  local is_trimmed = bit.band(flags, 0x04) ~= 0
  if payload_bytes > 0 and carried < payload_bytes then
    is_trimmed = true
  end
  if is_trimmed then
    tree:add_proto_expert_info(trimmed)
  elseif payload_bytes > 0 and at < tvb:len() then
    local captured = math.min(payload_bytes, tvb:len() - at)
    local part = tvb(at, captured):tvb()
    local left = captured
    if kind >= 8 or fields_tvb then
      left = add_payload(tree, number, kind, flags, fields_tvb, part)
    end
    if left > 0 then
      tree:add(payload, tvb(at + captured - left, left))
    end
    if is_keyed and at + payload_bytes + TAG_BYTES <= tvb:len() then
      tree:add(payload_tag, tvb(at + payload_bytes, TAG_BYTES))
    end
  end

  local words = transport .. " " .. (kinds[kind] or ("kind " .. kind))
  if bit.band(flags, 0x10) ~= 0 then
    words = words .. " SYN"
  end
  if is_trimmed then
    words = words .. " trimmed"
  end
  if bit.band(flags, 0x08) ~= 0 then
    words = words .. " bounced"
  end
  words = words .. string.format(" flow=%08x path=%d", tvb(4, 4):uint(), tvb(16, 2):uint())
  if fields == generic and header_bytes >= ENVELOPE_BYTES + 16 then
    words = words .. " below=" .. tostring(tvb(ENVELOPE_BYTES + 8, 8):uint64())
  elseif fields == ndp and header_bytes >= ENVELOPE_BYTES + 4 then
    words = words .. " seq=" .. tvb(ENVELOPE_BYTES + 1, 3):uint()
  elseif fields and header_bytes >= ENVELOPE_BYTES + 4 then
    words = words .. " seq=" .. tvb(ENVELOPE_BYTES, 4):uint()
  end
  return words .. " len=" .. payload_bytes
end

local function is_version_answer(tvb)
  return tvb:len() == ANSWER_BYTES and tvb(0, 1):uint() == ANSWER_MAGIC_VERSION
end

local function dissect_version_answer(tvb, pinfo, root)
  pinfo.cols.protocol = "PUNCTUAL"
  local tree = root:add(punctual, tvb(), "punctual version answer")
  add(tree, { envelope[1], envelope[2] }, tvb)
  add(tree, version_answer, tvb)
  if not is_sound(tvb, ANSWER_BYTES, 8) then
    tree:add_proto_expert_info(bad_check)
  end
  local words = "reads version %d, not that of flow=%08x"
  pinfo.cols.info = string.format(words, tvb(1, 1):uint(), tvb(4, 4):uint())
end

-- A frame that was captured where it was sent may have many packets: the network card, or the
-- receiver's kernel on loopback, separates what left as one message (UDP_SEGMENT).
function punctual.dissector(tvb, pinfo, root)
  if is_version_answer(tvb) then
    dissect_version_answer(tvb, pinfo, root)
    return ANSWER_BYTES
  end
  local packet_bytes = packet_bytes_of(tvb)
  if packet_bytes == nil then
    return 0
  end
  local len = tvb:len()
  if len < tvb:reported_len() or packet_bytes >= len then
    pinfo.cols.info = dissect(tvb, pinfo, root)
    return tvb:reported_len()
  end
  local at, packets, first = 0, 0, nil
  while packet_bytes ~= nil do
    packet_bytes = math.min(packet_bytes, len - at)
    local words = dissect(tvb(at, packet_bytes):tvb(), pinfo, root)
    first, packets, at = first or words, packets + 1, at + packet_bytes
    packet_bytes = at < len and packet_bytes_of(tvb(at):tvb()) or nil
  end
  pinfo.cols.info = first .. " and " .. (packets - 1) .. " more"
  return tvb:reported_len()
end

-- Recognises our datagrams on any port.
local function heuristic(tvb, pinfo, root)
  local header_bytes = header_bytes_of(tvb)
  local is_packet = header_bytes ~= nil and is_sound(tvb, header_bytes, 10)
  if not is_packet and not (is_version_answer(tvb) and is_sound(tvb, ANSWER_BYTES, 8)) then
    return false
  end
  punctual.dissector(tvb, pinfo, root)
  return true
end
punctual:register_heuristic("udp", heuristic)
DissectorTable.get("udp.port"):add(DEFAULT_PORT, punctual)
