//! Simulated NICs on vfio-user sockets, seen by a client that is not ours and by clients that break the rules.
use rocenic_contract::{LAYOUT_HASH, pci, regs};
use rocenic_sim::nic::{self, Random};
use rocenic_sim::vfio_user::{Config, Error, Running, serve};
use rocenic_vfio_user::channel::Channel;
use rocenic_vfio_user::memory;
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::*;
use rustix::io::Errno;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use vfio_user::Client;

/// Far beyond what anything here takes: a limit, not a measurement.
const LIMIT: Duration = Duration::from_secs(120);

/// A short path: sockets allow about 100 characters.
fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rocenic-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}
fn start(path: &PathBuf) -> Running {
    let library = nic::library(false).expect("the model");
    serve(&library, std::slice::from_ref(path), &Config::default()).expect("served")
}
fn word(c: &mut Client, region: u32, at: u64) -> u32 {
    let mut b = [0; 4];
    c.region_read(region, at, &mut b).expect("read");
    u32::from_le_bytes(b)
}

#[test]
fn a_client_that_is_not_ours_finds_a_pci_function_with_our_registers() {
    let path = socket("foreign");
    let _running = start(&path);
    let mut c = Client::new(&path).expect("client");
    let sizes: Vec<u64> = (0..VFIO_PCI_NUM_REGIONS)
        .map(|i| c.region(i).map_or(0, |r| r.size))
        .collect();
    assert_eq!(sizes[0], regs::BAR0_BYTES);
    assert_eq!(sizes[2], regs::BAR2_BYTES);
    assert_eq!(sizes[VFIO_PCI_CONFIG_REGION_INDEX as usize], 4096);
    let irqs = c.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX).expect("interrupts");
    assert_eq!(irqs.count, 8);
    let config = VFIO_PCI_CONFIG_REGION_INDEX;
    let id = u32::from(pci::DEVICE_ID) << 16 | u32::from(pci::VENDOR_ID);
    assert_eq!(word(&mut c, config, 0), id);
    // no memory space: nothing answers
    assert_eq!(word(&mut c, 0, regs::control::MAGIC), u32::MAX);
    c.region_write(config, 4, &6u16.to_le_bytes())
        .expect("command");
    assert_eq!(word(&mut c, 0, regs::control::MAGIC), regs::MAGIC_VALUE);
    let mut hash = [0; 8];
    c.region_read(0, regs::control::LAYOUT_HASH_LO, &mut hash)
        .expect("hash");
    assert_eq!(u64::from_le_bytes(hash), LAYOUT_HASH);
    // parts of a register, and the shell's own page
    let mut part = [0; 2];
    c.region_read(0, regs::control::MAGIC + 1, &mut part)
        .expect("part");
    assert_eq!(part, regs::MAGIC_VALUE.to_le_bytes()[1..3]);
    c.region_write(0, pci::MSIX_TABLE, &[1, 2, 3, 4, 5, 6, 7, 8])
        .expect("table");
    assert_eq!(word(&mut c, 0, pci::MSIX_TABLE + 4), 0x0807_0605);

    let mem = memory::create(1 << 20).expect("memory");
    c.dma_map(0, 0x10_0000, 1 << 20, mem.as_raw_fd())
        .expect("map");
    c.dma_unmap(0x10_0000, 1 << 20).expect("unmap");
    c.reset().expect("reset");
    assert_eq!(
        word(&mut c, config, 4) & 6,
        0,
        "reset clears the command register"
    );
    assert_eq!(word(&mut c, 0, regs::control::MAGIC), u32::MAX);
}

/// A client of bare messages.
struct Bare(Channel, u16);
impl Bare {
    fn connect(path: &PathBuf) -> Bare {
        let socket = UnixStream::connect(path).expect("connect");
        Bare(Channel::new(socket).expect("channel"), 0)
    }
    /// The answer's error number, 0 for none; `None` when the connection ended.
    fn ask(&mut self, command: u16, body: &[u8], fds: &[&std::os::fd::OwnedFd]) -> Option<i32> {
        self.1 += 1;
        let header = Header {
            id: self.1,
            command,
            ..Header::default()
        };
        let fds: Vec<_> = fds.iter().map(|f| f.as_fd()).collect();
        self.0.send(header, &[body], &fds, LIMIT).ok()?;
        let m = self.0.receive(Some(LIMIT), LIMIT).ok()?;
        assert_eq!((m.header.id, m.header.command), (self.1, command));
        Some(m.header.error as i32)
    }
    fn greet(&mut self, major: u16) -> Option<i32> {
        let mut body = Version { major, minor: 1 }.to_bytes();
        body.extend_from_slice(b"{}\0");
        self.ask(command::VERSION, &body, &[])
    }
}

#[test]
fn impossible_requests_are_refused_with_their_reason_and_the_connection_goes_on() {
    let path = socket("refused");
    let _running = start(&path);
    let mut c = Bare::connect(&path);
    assert_eq!(c.greet(0), Some(0));
    let (inval, unknown) = (
        Some(Errno::INVAL.raw_os_error()),
        Some(Errno::OPNOTSUPP.raw_os_error()),
    );
    let mem = memory::create(4096).expect("memory");
    let map = |address, size, offset| {
        DmaMap {
            argsz: 32,
            flags: 3,
            offset,
            address,
            size,
        }
        .to_bytes()
    };
    assert_eq!(c.ask(command::DMA_MAP, &map(0, 8192, 0), &[&mem]), inval);
    assert_eq!(c.ask(command::DMA_MAP, &map(1, 4096, 0), &[&mem]), inval);
    assert_eq!(c.ask(command::DMA_MAP, &map(0, 4096, 0), &[&mem]), Some(0));
    let exist = Some(Errno::EXIST.raw_os_error());
    assert_eq!(c.ask(command::DMA_MAP, &map(0, 4096, 0), &[&mem]), exist);
    let access = |region, offset, count| {
        Access {
            offset,
            region,
            count,
        }
        .to_bytes()
    };
    for (region, offset, count) in [
        (0, regs::BAR0_BYTES - 3, 4),
        (0, u64::MAX, 4),
        (0, 0, 0),
        (0, 0, 4096),
        (1, 0, 4),
        (99, 0, 4),
        (VFIO_PCI_CONFIG_REGION_INDEX, 4095, 2),
    ] {
        let body = access(region, offset, count);
        assert_eq!(
            c.ask(command::REGION_READ, &body, &[]),
            inval,
            "{region} {offset:#x}"
        );
    }
    // a write that promises more than it brings; a vector there is not; a file that is no eventfd
    assert_eq!(c.ask(command::REGION_WRITE, &access(0, 0, 4), &[]), inval);
    let irqs = |start, count| {
        SetIrqs {
            argsz: 20,
            flags: VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
            index: VFIO_PCI_MSIX_IRQ_INDEX,
            start,
            count,
        }
        .to_bytes()
    };
    assert_eq!(c.ask(command::SET_IRQS, &irqs(8, 1), &[]), inval);
    assert_eq!(c.ask(command::SET_IRQS, &irqs(u32::MAX, 2), &[]), inval);
    assert_eq!(c.ask(command::SET_IRQS, &irqs(0, 1), &[&mem]), inval);
    assert_eq!(c.ask(99, &[], &[]), unknown);
    assert_eq!(
        c.ask(command::GET_INFO, &DeviceInfo::default().to_bytes(), &[]),
        Some(0)
    );
}

#[test]
fn one_client_at_a_time_and_the_next_one_finds_nothing_of_the_last() {
    let path = socket("busy");
    let _running = start(&path);
    let mut first = Bare::connect(&path);
    assert_eq!(first.greet(0), Some(0));
    let mut second = Bare::connect(&path);
    assert_eq!(second.greet(0), Some(Errno::BUSY.raw_os_error()));
    let mem = memory::create(4096).expect("memory");
    let map = DmaMap {
        argsz: 32,
        flags: 3,
        offset: 0,
        address: 4096,
        size: 4096,
    };
    let mapped = |c: &mut Bare| c.ask(command::DMA_MAP, &map.to_bytes(), &[&mem]);
    assert_eq!(mapped(&mut first), Some(0));
    // it goes without a word
    drop(first);
    let mut next = Bare::connect(&path);
    assert_eq!(next.greet(0), Some(0));
    assert_eq!(
        mapped(&mut next),
        Some(0),
        "the last client's memory is gone"
    );
}

#[test]
fn another_version_is_refused_and_version_comes_first() {
    let path = socket("version");
    let _running = start(&path);
    let mut c = Bare::connect(&path);
    assert_eq!(c.greet(7), Some(Errno::NOTSUP.raw_os_error()));
    assert_eq!(c.greet(0), None, "the connection is over");
    let mut c = Bare::connect(&path);
    assert_eq!(c.ask(command::GET_INFO, &[], &[]), None);
}

#[test]
fn a_socket_left_behind_is_replaced_one_that_is_served_is_not_and_files_stay() {
    let path = socket("stale");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
    assert!(path.exists());
    let running = start(&path);
    let library = nic::library(false).expect("the model");
    let again = serve(&library, std::slice::from_ref(&path), &Config::default());
    assert!(matches!(again, Err(Error::Socket { .. })));
    let mut c = Bare::connect(&path);
    assert_eq!(c.greet(0), Some(0), "the first one still serves");
    drop(running);
    assert!(!path.exists(), "the socket goes with its server");
    std::fs::write(&path, "precious").expect("a file");
    let refused = serve(&library, std::slice::from_ref(&path), &Config::default());
    let why = refused.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(why.contains("no socket"), "{why}");
    assert_eq!(std::fs::read(&path).expect("the file"), b"precious");
    let _ = std::fs::remove_file(&path);
}

#[test]
fn garbage_on_the_socket_harms_nobody() {
    let seed = std::env::var("ROCENIC_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("seed {seed}");
    let path = socket("garbage");
    let _running = start(&path);
    let mut random = Random::new(seed);
    let mem = memory::create(1 << 16).expect("memory");
    for round in 0..60 {
        let mut c = Bare::connect(&path);
        if random.chance(0.1) {
            // not even a header, or one that promises what does not come
            let mut socket = UnixStream::connect(&path).expect("connect");
            let junk: Vec<u8> = (0..random.below(64))
                .map(|_| random.next_u64() as u8)
                .collect();
            let _ = socket.write_all(&junk);
            continue;
        }
        c.greet(0);
        for _ in 0..random.below(40) {
            // commands that exist, with bodies of numbers that are small, huge or random
            let body: Vec<u8> = (0..random.below(12))
                .flat_map(|_| {
                    let n = match random.below(4) {
                        0 => random.below(16) as u32,
                        1 => u32::MAX - random.below(4096) as u32,
                        2 => (random.below(64) << 12) as u32,
                        _ => random.next_u64() as u32,
                    };
                    n.to_le_bytes()
                })
                .collect();
            let fds: &[_] = if random.chance(0.5) { &[&mem] } else { &[] };
            // a reset takes thousands of cycles
            let command = loop {
                let n = random.below(16) as u16;
                if n != command::RESET || random.chance(0.1) {
                    break n;
                }
            };
            if c.ask(command, &body, fds).is_none() {
                break;
            }
        }
        let mut good = loop {
            let mut good = Bare::connect(&path);
            drop(c);
            match good.greet(0) {
                Some(0) => break good,
                other => assert_eq!(other, None, "seed {seed}, round {round}"),
            }
            c = good;
        };
        let info = good.ask(command::GET_INFO, &DeviceInfo::default().to_bytes(), &[]);
        assert_eq!(info, Some(0), "seed {seed}, round {round}");
    }
}
