//! What a hostile client does: steps, how they are made up, and how they are changed.
use rocenic_contract::{pci, regs};
use rocenic_sim::nic::Random;
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::*;
use serde::{Deserialize, Serialize};

/// Longest body that is made up: a message and a bit more than the largest data.
const BODY: usize = MAX_DATA + 64;
/// Steps of a case.
const STEPS: usize = 40;

/// What goes along with a message.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum File {
    /// 64 KiB that nobody can shrink.
    Memory,
    /// The same, of one page.
    Page,
    /// Memory that can shrink under the server.
    Loose,
    Eventfd,
    /// An eventfd whose counter is full: writing to it would block.
    FullEventfd,
    Pipe,
    Socket,
    Directory,
}
pub const FILES: [File; 8] = [
    File::Memory,
    File::Page,
    File::Loose,
    File::Eventfd,
    File::FullEventfd,
    File::Pipe,
    File::Socket,
    File::Directory,
];

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A message; its answer is waited for.
    Message {
        command: u16,
        #[serde(default, skip_serializing_if = "is_default")]
        flags: u32,
        /// What the header claims, when that is not the truth.
        #[serde(default, skip_serializing_if = "is_default")]
        size: Option<u32>,
        #[serde(default, with = "hex", skip_serializing_if = "Vec::is_empty")]
        body: Vec<u8>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<File>,
    },
    /// Bytes that are no message.
    Raw(#[serde(with = "hex")] Vec<u8>),
    /// Another client tries.
    Intruder,
}
fn is_default<T: Default + PartialEq>(v: &T) -> bool {
    *v == T::default()
}
/// Bytes as text.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
    }
    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect();
        match digits {
            Some(d) if d.len() % 2 == 0 => Ok(d.chunks(2).map(|p| p[0] << 4 | p[1]).collect()),
            _ => Err(D::Error::custom("bytes are pairs of hexadecimal digits")),
        }
    }
}

pub type Case = Vec<Step>;

fn message(command: u16, body: Vec<u8>, files: Vec<File>) -> Step {
    Step::Message {
        command,
        flags: flag::COMMAND,
        size: None,
        body,
        files,
    }
}
/// How every client begins.
pub fn greeting() -> Step {
    greet(b"{}\0")
}
/// How a client begins that only looks.
pub fn looking() -> Step {
    greet(format!("{{\"capabilities\":{{{OBSERVER}}}}}\0").as_bytes())
}
/// Whether a step says that its client only looks.
pub fn looks(s: &Step) -> bool {
    let Step::Message { command, body, .. } = s else {
        return false;
    };
    let mut places = body.windows(OBSERVER.len());
    *command == command::VERSION && places.any(|w| w == OBSERVER.as_bytes())
}
fn greet(text: &[u8]) -> Step {
    let mut body = Version {
        major: MAJOR,
        minor: MINOR,
    }
    .to_bytes();
    body.extend_from_slice(text);
    message(command::VERSION, body, vec![])
}
fn store(region: u32, offset: u64, data: &[u8]) -> Step {
    let count = data.len() as u32;
    let mut body = Access {
        offset,
        region,
        count,
    }
    .to_bytes();
    body.extend_from_slice(data);
    message(command::REGION_WRITE, body, vec![])
}
/// Memory space and bus mastering on: without them most of the rest has no effect.
pub fn enable() -> Step {
    store(VFIO_PCI_CONFIG_REGION_INDEX, 4, &6u16.to_le_bytes())
}

fn pick<T: Copy>(r: &mut Random, from: &[T]) -> T {
    from[r.below(from.len() as u64) as usize]
}
/// Numbers at which arithmetic goes wrong.
fn number(r: &mut Random) -> u64 {
    match r.below(6) {
        0 => r.below(16),
        1 => r.below(64) << 12,
        2 => (1u64 << r.below(64)).wrapping_sub(r.below(3)),
        3 => u64::MAX - r.below(8192),
        4 => u64::from(u32::MAX) - r.below(64),
        _ => r.next_u64(),
    }
}
fn region(r: &mut Random) -> u32 {
    match r.below(12) {
        0 => r.below(12) as u32,
        1 => number(r) as u32,
        2..5 => VFIO_PCI_CONFIG_REGION_INDEX,
        5 => pci::PUSH_BAR,
        _ => pci::REGISTER_BAR,
    }
}
/// An offset where something is, or at an edge.
fn offset(r: &mut Random, region: u32) -> u64 {
    let known = match region {
        pci::REGISTER_BAR => match r.below(6) {
            0 => r.below(0x60),
            1 => regs::mailbox::CMD_IN + r.below(0x100),
            2 => regs::DOORBELL_BASE + r.below(0x18),
            3 => pci::MSIX_TABLE + r.below(0x100),
            4 => regs::BAR0_BYTES - r.below(80),
            _ => r.below(regs::BAR0_BYTES),
        },
        pci::PUSH_BAR => match r.below(3) {
            0 => regs::BAR2_BYTES - r.below(80),
            _ => r.below(regs::BAR2_BYTES),
        },
        _ => match r.below(3) {
            0 => 4096 - r.below(8),
            1 => r.below(0x90),
            _ => r.below(4096),
        },
    };
    match r.below(12) {
        0 => number(r),
        1..4 => known,
        _ => known & !3,
    }
}
fn length(r: &mut Random) -> usize {
    match r.below(10) {
        0 => r.below(BODY as u64) as usize,
        1 => 64,
        2 => r.below(70) as usize,
        3 => 8,
        _ => 4,
    }
}
fn bytes(r: &mut Random, n: usize) -> Vec<u8> {
    let text: Vec<u8> = (0..n.div_ceil(8))
        .flat_map(|_| number(r).to_le_bytes())
        .collect();
    text[..n].to_vec()
}
fn files(r: &mut Random) -> Vec<File> {
    let n = match r.below(8) {
        0..4 => 1,
        4..6 => 0,
        6 => 2,
        _ => r.below(MAX_FDS as u64 + 1),
    };
    (0..n)
        .map(|_| match r.below(3) {
            0 => pick(r, &FILES),
            1 => File::Memory,
            _ => File::Eventfd,
        })
        .collect()
}
/// A page among the first 64, mostly.
fn address(r: &mut Random) -> u64 {
    match r.below(8) {
        0 => number(r),
        _ => r.below(64) << 12,
    }
}

/// A step that a client could take, with numbers that no client should.
fn step(r: &mut Random) -> Step {
    let argsz = number(r) as u32;
    match r.below(24) {
        0 => Step::Raw({
            let n = r.below(40) as usize;
            bytes(r, n)
        }),
        1 => Step::Intruder,
        2 => message(
            pick(r, &[0, 1, 6, 11, 12, 14, 15, 99, u16::MAX]),
            {
                let n = r.below(64) as usize;
                bytes(r, n)
            },
            files(r),
        ),
        3..7 => {
            let map = DmaMap {
                argsz: DmaMap::BYTES as u32,
                flags: r.below(5) as u32,
                offset: r.below(4) << 12,
                address: address(r),
                size: match r.below(4) {
                    0 => number(r),
                    _ => (1 + r.below(4)) << 12,
                },
            };
            message(command::DMA_MAP, map.to_bytes(), files(r))
        }
        7..9 => {
            let unmap = DmaUnmap {
                argsz,
                flags: r.below(4) as u32,
                address: address(r),
                size: match r.below(3) {
                    0 => number(r),
                    _ => (1 + r.below(8)) << 12,
                },
            };
            message(command::DMA_UNMAP, unmap.to_bytes(), vec![])
        }
        9 => message(
            pick(r, &[command::GET_INFO, command::RESET]),
            bytes(r, 16),
            vec![],
        ),
        10 => {
            let info = RegionInfo {
                argsz,
                index: region(r),
                ..RegionInfo::default()
            };
            message(command::GET_REGION_INFO, info.to_bytes(), vec![])
        }
        11..14 => {
            let set = SetIrqs {
                argsz,
                flags: 1 << r.below(3) | 1 << (3 + r.below(3)),
                index: pick(r, &[2, 2, 2, 3, 4, 0, 9]),
                start: r.below(9) as u32,
                count: match r.below(6) {
                    0 => number(r) as u32,
                    _ => r.below(9) as u32,
                },
            };
            let mut body = set.to_bytes();
            body.extend(bytes(r, 8));
            message(command::SET_IRQS, body, files(r))
        }
        14..17 => {
            let region = region(r);
            let access = Access {
                offset: offset(r, region),
                region,
                count: length(r) as u32,
            };
            message(command::REGION_READ, access.to_bytes(), vec![])
        }
        17 => {
            // a command of the device, with or without sense
            let word = (r.below(20) | r.below(256) << 8) as u32;
            store(
                pci::REGISTER_BAR,
                regs::mailbox::CMD_GO,
                &word.to_le_bytes(),
            )
        }
        18 => {
            let n = 4 * r.below(17) as usize;
            let input = bytes(r, n);
            store(pci::REGISTER_BAR, regs::mailbox::CMD_IN, &input)
        }
        _ => {
            let region = region(r);
            let n = length(r);
            let data = bytes(r, n);
            store(region, offset(r, region), &data)
        }
    }
}

/// A case from nothing.
pub fn invent(r: &mut Random) -> Case {
    let mut case = vec![];
    match r.below(20) {
        0 => {}
        1..4 => case.push(looking()),
        _ => case.push(greeting()),
    }
    if r.chance(0.8) {
        case.push(enable());
    }
    for _ in 0..1 + r.below(16) {
        case.push(step(r));
    }
    case
}

/// A case made from others.
pub fn change(r: &mut Random, corpus: &[Case]) -> Case {
    let Some(mut case) = corpus.get(r.below(corpus.len() as u64) as usize).cloned() else {
        return invent(r);
    };
    for _ in 0..1 + r.below(4) {
        let at = r.below(case.len() as u64 + 1) as usize;
        match r.below(6) {
            0 => case.insert(at, step(r)),
            1 if at < case.len() => drop(case.remove(at)),
            2 if at < case.len() => case.insert(at, case[at].clone()),
            3 => {
                // the end of another one
                let other = &corpus[r.below(corpus.len() as u64) as usize];
                let from = r.below(other.len() as u64 + 1) as usize;
                case.truncate(at);
                case.extend_from_slice(&other[from..]);
            }
            _ if at < case.len() => distort(r, &mut case[at]),
            _ => case.push(step(r)),
        }
    }
    case.truncate(STEPS);
    case
}

/// Changes something in a step.
fn distort(r: &mut Random, s: &mut Step) {
    match s {
        Step::Intruder => *s = step(r),
        Step::Raw(b) => distort_bytes(r, b),
        Step::Message {
            command,
            flags,
            size,
            body,
            files: with,
        } => match r.below(12) {
            0 => *command = r.below(16) as u16,
            1 => *flags = pick(r, &[flag::REPLY, flag::NO_REPLY, flag::ERROR, 2, !0]),
            2 => *size = Some(number(r) as u32),
            3 => *with = files(r),
            4 => body.truncate(r.below(body.len() as u64 + 1) as usize),
            _ => distort_bytes(r, body),
        },
    }
}
fn distort_bytes(r: &mut Random, b: &mut Vec<u8>) {
    let at = r.below(b.len() as u64 + 1) as usize;
    match r.below(4) {
        0 => b.insert(at, number(r) as u8),
        1 if at < b.len() => b[at] ^= 1 << r.below(8),
        // a field: they are aligned to four or eight bytes
        _ => {
            let (at, n) = (at & !3, pick(r, &[2, 4, 8]));
            let value = number(r).to_le_bytes();
            for (to, from) in b.iter_mut().skip(at).zip(&value[..n]) {
                *to = *from;
            }
        }
    }
    b.truncate(BODY);
}
