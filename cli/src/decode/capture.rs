//! Reads pcap and pcapng files.
use anyhow::{Context, Result, bail};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;

pub struct Frame {
    pub bytes: Vec<u8>,
    pub on_wire: usize,
}
pub struct Capture {
    pub frames: Vec<Frame>,
    /// Why reading stopped before the file's end.
    pub broken: Option<String>,
}

/// First bytes of a pcapng section.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// First bytes of a pcap file: micro- and nanoseconds, either byte order.
const PCAP: [[u8; 4]; 4] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

pub fn read(path: &Path) -> Result<Capture> {
    let name = path.display();
    let mut file = File::open(path).with_context(|| format!("{name}: cannot be opened"))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        bail!("{name}: is a directory; give a pcap or pcapng file");
    }
    let mut magic = [0; 4];
    if let Err(e) = file.read_exact(&mut magic) {
        if e.kind() == ErrorKind::UnexpectedEof {
            bail!("{name}: not a capture: shorter than the first word of a pcap or pcapng file");
        }
        return Err(e).with_context(|| format!("{name}: cannot be read"));
    }
    file.rewind()
        .with_context(|| format!("{name}: cannot be read from its beginning"))?;
    if magic == PCAPNG {
        pcapng(file).with_context(|| name.to_string())
    } else if PCAP.contains(&magic) {
        pcap(file).with_context(|| name.to_string())
    } else {
        bail!("{name}: not a capture: begins with {magic:02x?}, not like a pcap or pcapng file");
    }
}

fn ethernet(link: DataLink) -> Result<()> {
    if link != DataLink::ETHERNET {
        let n = u32::from(link);
        bail!("link type {n} ({link:?}): only Ethernet captures (link type 1) can be decoded");
    }
    Ok(())
}
/// Ends the reading: what was read so far is still good.
fn stop(frames: Vec<Frame>, e: &PcapError) -> Capture {
    let n = frames.len();
    let broken = match e {
        PcapError::IncompleteBuffer => format!("ends in the middle of frame {}", n + 1),
        PcapError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            format!(
                "ends in the middle of frame {}; the {n} frames before it are whole",
                n + 1
            )
        }
        e => format!("damaged behind frame {n}: {e}"),
    };
    Capture {
        frames,
        broken: Some(broken),
    }
}
fn header(e: PcapError) -> anyhow::Error {
    match e {
        PcapError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            anyhow::anyhow!("ends in the middle of the file header")
        }
        e => anyhow::anyhow!("damaged file header: {e}"),
    }
}

fn pcap(file: File) -> Result<Capture> {
    let mut r = PcapReader::new(file).map_err(header)?;
    ethernet(r.header().datalink)?;
    let mut frames = vec![];
    while let Some(p) = r.next_packet() {
        match p {
            Ok(p) => frames.push(Frame {
                on_wire: p.orig_len as usize,
                bytes: p.data.into_owned(),
            }),
            Err(e) => return Ok(stop(frames, &e)),
        }
    }
    Ok(Capture {
        frames,
        broken: None,
    })
}

fn pcapng(file: File) -> Result<Capture> {
    let mut r = PcapNgReader::new(file).map_err(header)?;
    let mut frames = vec![];
    loop {
        let (interface, frame) = match r.next_block() {
            None => {
                return Ok(Capture {
                    frames,
                    broken: None,
                });
            }
            Some(Err(e)) => return Ok(stop(frames, &e)),
            Some(Ok(Block::EnhancedPacket(p))) => (
                p.interface_id as usize,
                Frame {
                    on_wire: p.original_len as usize,
                    bytes: p.data.into_owned(),
                },
            ),
            Some(Ok(Block::SimplePacket(p))) => (
                0,
                Frame {
                    on_wire: p.original_len as usize,
                    bytes: p.data.into_owned(),
                },
            ),
            Some(Ok(Block::Packet(p))) => (
                p.interface_id.into(),
                Frame {
                    on_wire: p.original_len as usize,
                    bytes: p.data.into_owned(),
                },
            ),
            Some(Ok(_)) => continue,
        };
        let n = frames.len() + 1;
        let Some(i) = r.interfaces().get(interface) else {
            bail!("frame {n} names interface {interface}, which the file does not describe");
        };
        ethernet(i.linktype).with_context(|| format!("frame {n}"))?;
        frames.push(frame);
    }
}
