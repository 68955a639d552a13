//! A pcapng capture with simulated time, in nanoseconds since the reset of the NICs.
use crate::nic::CYCLE_NS;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// log10 of the time stamps' resolution: nanoseconds.
const NANOSECONDS: u8 = 9;

#[derive(Debug, thiserror::Error)]
#[error("cannot write the capture {}: {what}", path.display())]
pub struct CaptureError {
    path: PathBuf,
    what: String,
}

pub struct Capture {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
    frames: u64,
}
impl Capture {
    /// Begins the file, replacing one that is there.
    pub fn create(path: &Path) -> Result<Capture, CaptureError> {
        let fail = |what: String| CaptureError {
            path: path.into(),
            what,
        };
        let file = File::create(path).map_err(|e| fail(e.to_string()))?;
        let mut writer =
            PcapNgWriter::new(BufWriter::new(file)).map_err(|e| fail(e.to_string()))?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                InterfaceDescriptionOption::IfName(Cow::Borrowed("wire")),
            ],
        };
        writer
            .write_pcapng_block(interface)
            .map_err(|e| fail(e.to_string()))?;
        Ok(Capture {
            path: path.into(),
            writer,
            frames: 0,
        })
    }
    /// Adds a frame.
    pub fn frame(&mut self, cycle: u64, bytes: &[u8]) -> Result<(), CaptureError> {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(cycle * CYCLE_NS),
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(bytes),
            options: vec![],
        };
        self.frames += 1;
        self.writer
            .write_pcapng_block(block)
            .map_err(|e| CaptureError {
                path: self.path.clone(),
                what: e.to_string(),
            })?;
        Ok(())
    }
    /// What was captured so far is in the file, whatever happens to this process.
    pub(super) fn flush(&mut self) -> Result<(), CaptureError> {
        self.writer.get_mut().flush().map_err(|e| CaptureError {
            path: self.path.clone(),
            what: e.to_string(),
        })
    }
    /// Writes what is not in the file yet.
    pub fn close(self) -> Result<(), CaptureError> {
        let path = self.path;
        self.writer.into_inner().flush().map_err(|e| CaptureError {
            path,
            what: e.to_string(),
        })
    }
}
