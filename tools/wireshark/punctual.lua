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

local kinds = { [0] = "data", [1] = "ack", [2] = "nack", [3] = "pull", [4] = "probe" }
local transports = { [1] = "ndp", [2] = "d3", [3] = "rcpdc", [4] = "pdq", [GENERIC] = "generic" }
local contents = { [0] = "data", [1] = "acknowledgement", [2] = "neither" }

-- Fields by name, as in the tables of docs/wire.md. A field is { type, first byte, bytes, options }.
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
  { "payload_check", "uint32", 12, 4, base.HEX },
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
  { "pdq.age", "uint8", 17, 1, base.DEC },
  { "pdq.held", "bool", 18, 1, 8, nil, 0x40 },
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

-- The fields of each transport, by its number.
local of_transport = { [1] = ndp, [2] = d3, [3] = d3, [4] = pdq, [GENERIC] = generic }

local header_tag = ProtoField.bytes("punctual.header_tag", "header_tag", base.SPACE)
local payload = ProtoField.bytes("punctual.payload", "payload", base.SPACE)
local payload_tag = ProtoField.bytes("punctual.payload_tag", "payload_tag", base.SPACE)
local unknown = ProtoField.bytes("punctual.fields", "fields of an unknown transport", base.SPACE)

local registered = { header_tag, payload, payload_tag, unknown }
for _, fields in ipairs({ envelope, version_answer, ndp, d3, pdq, generic }) do
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

local function add(tree, fields, tvb)
  for _, field in ipairs(fields) do
    local at, bytes = field[3], field[4]
    if at + bytes <= tvb:len() then
      tree:add(field.proto, tvb(at, bytes))
    end
  end
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
  add(tree, envelope, tvb(0, ENVELOPE_BYTES))
  if not is_sound(tvb, header_bytes, 10) then
    tree:add_proto_expert_info(bad_check)
  end
  local fields = of_transport[number]
  if header_bytes > ENVELOPE_BYTES then
    local part = tvb(ENVELOPE_BYTES, header_bytes - ENVELOPE_BYTES)
    if fields then
      add(tree, fields, part:tvb())
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
    tree:add(payload, tvb(at, captured))
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
