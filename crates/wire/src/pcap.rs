//! Captures: pcapng files that Wireshark opens.

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

/// Timestamps count nanoseconds: `if_tsresol` of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Writes Ethernet frames with nanosecond timestamps as a pcapng file.
pub struct PcapWriter<W: Write> {
    file: PcapNgWriter<W>,
    interfaces: u32,
    snap_bytes: Option<u32>,
    frames: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file. Of each frame at most `snap_bytes` are kept, if given; the frame's length
    /// stays known. `comment` is shown as the comment of the file.
    pub fn new(out: W, snap_bytes: Option<u32>, comment: &str) -> io::Result<Self> {
        let section = SectionHeaderBlock {
            options: vec![
                SectionHeaderOption::Comment(Cow::Owned(comment.to_owned())),
                SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
                    "punctual ",
                    env!("CARGO_PKG_VERSION")
                ))),
            ],
            ..SectionHeaderBlock::default()
        };
        let file = PcapNgWriter::with_section_header(out, section).map_err(into_io)?;
        Ok(PcapWriter { file, interfaces: 0, snap_bytes, frames: 0 })
    }

    /// Adds an interface and returns its number.
    pub fn add_interface(&mut self, name: &str) -> io::Result<u32> {
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.snap_bytes.unwrap_or(0),
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name.to_owned())),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.file.write_pcapng_block(block).map_err(into_io)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a frame. `at` is the time since the epoch, or since the start of a simulation.
    pub fn write(&mut self, interface: u32, at: Duration, frame: &[u8]) -> io::Result<()> {
        let kept = self.snap_bytes.map_or(frame.len(), |snap| frame.len().min(snap as usize));
        self.write_part(interface, at, &frame[..kept], frame.len())
    }

    /// Writes the beginning of a frame of `frame_bytes`.
    pub fn write_part(
        &mut self,
        interface: u32,
        at: Duration,
        kept: &[u8],
        frame_bytes: usize,
    ) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: at,
            original_len: u32::try_from(frame_bytes).unwrap_or(u32::MAX),
            data: Cow::Borrowed(kept),
            options: Vec::new(),
        };
        self.file.write_pcapng_block(block).map_err(into_io)?;
        self.frames += 1;
        Ok(())
    }

    /// Frames written so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.get_mut().flush()
    }

    /// Ends the file and returns where it was written.
    pub fn into_inner(self) -> W {
        self.file.into_inner()
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write> std::fmt::Debug for PcapWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapWriter").field("frames", &self.frames).finish_non_exhaustive()
    }
}
