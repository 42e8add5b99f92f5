use super::*;

fn sample(payload: &[u8], keyed: Option<u32>) -> Vec<u8> {
    let mut bytes = vec![0; ENVELOPE_BYTES];
    bytes.extend_from_slice(b"fieldsof");
    if keyed.is_some() {
        bytes.extend_from_slice(&[0xaa; TAG_BYTES]);
    }
    bytes.extend_from_slice(payload);
    if keyed.is_some() && !payload.is_empty() {
        bytes.extend_from_slice(&[0xbb; TAG_BYTES]);
    }
    let envelope = Envelope {
        transport: 3,
        kind: Kind::NACK,
        class: Class::DATA,
        flags: PacketFlags::TRIMMABLE,
        is_syn: true,
        keyed,
        name: WireName { flow: 0xdead_beef, incarnation: 0xc0de },
        path: 0x0102,
        payload_bytes: payload.len() as u16,
    };
    envelope.seal(&mut bytes, 8);
    bytes
}

#[test]
fn parse__gives_back_what_was_sealed() {
    for keyed in [None, Some(77)] {
        let bytes = sample(b"hello", keyed);
        let datagram = Datagram::parse(&bytes).unwrap();
        assert_eq!((datagram.fields, datagram.payload), (&b"fieldsof"[..], &b"hello"[..]));
        let envelope = datagram.envelope;
        assert_eq!(envelope.name, WireName { flow: 0xdead_beef, incarnation: 0xc0de });
        assert_eq!((envelope.class, envelope.flags), (Class::DATA, PacketFlags::TRIMMABLE));
        assert_eq!((envelope.kind, envelope.is_syn, envelope.path), (Kind::NACK, true, 0x0102));
        assert_eq!((envelope.keyed, envelope.payload_bytes), (keyed, 5));
        let tag = |byte: u8| keyed.map(|_| [byte; TAG_BYTES]);
        assert_eq!(datagram.header_tag.copied(), tag(0xaa));
        assert_eq!(datagram.payload_tag.copied(), tag(0xbb));
    }
    let bytes = sample(b"", Some(1));
    let datagram = Datagram::parse(&bytes).unwrap();
    assert!(datagram.header_tag.is_some() && datagram.payload_tag.is_none());
}

#[test]
fn layout__each_field_has_the_value_that_was_sealed() {
    let bytes = sample(b"hello", None);
    let value = |name: &str| {
        let field = ENVELOPE_LAYOUT.iter().find(|field| field.name == name).unwrap();
        field.value(&bytes)
    };
    assert_eq!((value("magic"), value("version"), value("header_words")), (0xd, 2, 6));
    assert_eq!((value("kind"), value("transport"), value("class")), (2, 3, 1));
    assert_eq!((value("flags.syn"), value("flags.keyed")), (1, 0));
    assert_eq!((value("flags.trimmable"), value("flags.trimmed")), (1, 0));
    assert_eq!((value("flow"), value("payload_bytes")), (0xdead_beef, 5));
    assert_eq!(value("payload_check"), u64::from(crc32fast::hash(b"hello")));
    assert_eq!((value("path"), value("incarnation")), (0x0102, 0xc0de));
    // Every bit of the envelope belongs to one field.
    let mut bits = [0u8; ENVELOPE_BYTES];
    for field in ENVELOPE_LAYOUT {
        for (at, byte) in bits.iter_mut().enumerate().skip(field.at).take(field.bytes) {
            let mask = if field.mask == 0 { 0xff } else { field.mask as u8 };
            assert_eq!(*byte & mask, 0, "{} shares byte {at}", field.name);
            *byte |= mask;
        }
    }
    assert_eq!(bits, [0xff; ENVELOPE_BYTES]);
}

#[test]
fn parse__missing_payload_is_a_trimmed_packet() {
    for (keyed, header) in [(None, 28), (Some(1), 44)] {
        let bytes = sample(b"hello", keyed);
        for kept in header..bytes.len() {
            let datagram = Datagram::parse(&bytes[..kept]).unwrap();
            assert!(datagram.envelope.flags.has(PacketFlags::TRIMMED));
            assert_eq!((datagram.envelope.payload_bytes, datagram.payload.len()), (5, 0));
            assert_eq!(datagram.payload_tag, None);
            assert_eq!(datagram.header_tag.is_some(), keyed.is_some());
        }
    }
}

#[test]
fn parse__names_what_is_wrong() {
    let good = sample(b"hello", None);
    let broken = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Datagram::parse(&bytes).unwrap_err()
    };
    assert_eq!(Datagram::parse(&good[..7]).unwrap_err(), WireError::Short(7));
    assert_eq!(Datagram::parse(&good[..27]).unwrap_err(), WireError::Short(27));
    assert_eq!(broken(0, 0x12), WireError::Magic(0x12));
    assert_eq!(broken(0, 0xd9), WireError::Version(9));
    assert_eq!(broken(1, 0x30), WireError::FieldsSize(0));
    assert_eq!(broken(24, 0), WireError::HeaderCheck);
    assert_eq!(broken(30, 0), WireError::PayloadCheck);
    let long = [&good[..], &[0]].concat();
    let error = Datagram::parse(&long).unwrap_err();
    assert_eq!(error, WireError::Long { announced: 5, carried: 6 });
    let keyed = sample(b"hello", Some(1));
    assert_eq!(Datagram::parse(&keyed[..43]).unwrap_err(), WireError::Short(43));
    let long = [&keyed[..], &[0]].concat();
    let error = Datagram::parse(&long).unwrap_err();
    assert_eq!(error, WireError::Long { announced: 21, carried: 22 });
}

#[test]
fn set_flags__lets_a_switch_trim() {
    for (keyed, header) in [(None, 28), (Some(1), 44)] {
        let mut bytes = sample(b"hello", keyed);
        let kept = set_flags(&mut bytes, PacketFlags::TRIMMED).unwrap();
        assert_eq!(kept, header);
        let datagram = Datagram::parse(&bytes[..kept]).unwrap();
        assert_eq!(datagram.envelope.flags, PacketFlags::TRIMMED);
        assert_eq!((datagram.envelope.is_syn, datagram.envelope.keyed), (true, keyed));
        assert!(set_flags(&mut bytes[..10], PacketFlags::TRIMMED).is_err());
    }
}

#[test]
fn authenticated_header__survives_switches_and_nothing_else() {
    let whole = sample(b"hello", Some(9));
    let of = |bytes: &[u8], at: usize| Datagram::parse(bytes).unwrap().authenticated_header(at);
    let (header, len) = of(&whole, usize::MAX);
    assert_eq!(len, 28);
    // Trimmed and bounced by our switch, or only cut by another.
    let mut switched = whole.clone();
    let flags = PacketFlags::TRIMMABLE
        .with(PacketFlags::TRIMMED)
        .with(PacketFlags::BOUNCED)
        .with(PacketFlags::TO_SENDER);
    let kept = set_flags(&mut switched, flags).unwrap();
    assert_eq!(of(&switched[..kept], usize::MAX), (header, len));
    assert_eq!(of(&whole[..50], usize::MAX), (header, len));
    // Any other flag is authenticated, and so is every field that switches leave alone.
    let mut forged = whole.clone();
    set_flags(&mut forged, PacketFlags::empty()).unwrap();
    assert_ne!(of(&forged, usize::MAX).0, header);
    assert_eq!(&of(&whole, usize::MAX).0[20..28], b"fieldsof");
    assert_eq!(&of(&whole, 6).0[20..28], b"fields\0\0");
}
