//! The vfio-user transport against a server that is not ours, and against servers that go wrong.
use rocenic_driver::TransportError;
use rocenic_driver::contract::{pci, regs};
use rocenic_driver::transport::vfio_user::VfioUser;
use rocenic_driver::transport::{Clock, Transport};
use rocenic_vfio_user::vfio::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

/// A limit, not a measurement.
const LIMIT_NS: u64 = 60_000_000_000;

fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rocenic-drv-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// What the server was asked to do.
#[derive(Default)]
struct Seen {
    writes: Vec<(u32, u64, Vec<u8>)>,
    maps: BTreeMap<u64, (u64, File)>,
    unmapped: Vec<(u64, u64)>,
    resets: u32,
    vectors: BTreeMap<u32, File>,
}
struct Backend(Arc<Mutex<Seen>>, u16);
impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, at: u64, to: &mut [u8]) -> Result<(), Error> {
        let id = u32::from(pci::DEVICE_ID) << 16 | u32::from(self.1);
        if (region, at) == (VFIO_PCI_CONFIG_REGION_INDEX, 0) {
            to.copy_from_slice(&id.to_le_bytes());
        } else {
            to.copy_from_slice(&(at as u32).to_le_bytes()[..to.len()]);
        }
        Ok(())
    }
    fn region_write(&mut self, region: u32, at: u64, from: &[u8]) -> Result<(), Error> {
        let mut seen = self.0.lock().expect("lock");
        seen.writes.push((region, at, from.to_vec()));
        if region == pci::REGISTER_BAR && at == 0x2000 {
            let v = u32::from(from[0]);
            (&seen.vectors[&v]).write_all(&1u64.to_ne_bytes())?;
        }
        Ok(())
    }
    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> Result<(), Error> {
        assert_eq!(offset, 0);
        let fd = fd.ok_or(std::io::ErrorKind::InvalidInput)?;
        self.0
            .lock()
            .expect("lock")
            .maps
            .insert(address, (size, fd));
        Ok(())
    }
    fn dma_unmap(&mut self, _: DmaUnmapFlags, address: u64, size: u64) -> Result<(), Error> {
        self.0.lock().expect("lock").unmapped.push((address, size));
        Ok(())
    }
    fn reset(&mut self) -> Result<(), Error> {
        self.0.lock().expect("lock").resets += 1;
        Ok(())
    }
    fn set_irqs(
        &mut self,
        _: u32,
        _: u32,
        start: u32,
        _: u32,
        fds: Vec<File>,
    ) -> Result<(), Error> {
        let mut seen = self.0.lock().expect("lock");
        for (i, fd) in fds.into_iter().enumerate() {
            seen.vectors.insert(start + i as u32, fd);
        }
        Ok(())
    }
}

/// Serves one connection of a function with this vendor.
fn foreign(name: &str, vendor: u16) -> (PathBuf, Arc<Mutex<Seen>>, JoinHandle<()>) {
    let path = socket(name);
    let regions = (0..VFIO_PCI_NUM_REGIONS).map(|index| ServerRegion {
        region_info: vfio_region_info {
            argsz: 32,
            flags: VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
            index,
            size: regs::BAR0_BYTES,
            ..Default::default()
        },
        sparse_areas: vec![],
        mmap_fd: None,
    });
    let irqs = (0..VFIO_PCI_NUM_IRQS).map(|index| IrqInfo {
        index,
        flags: VFIO_IRQ_INFO_EVENTFD,
        count: 4,
    });
    let server = Server::new(&path, true, irqs.collect(), regions.collect()).expect("server");
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut backend = Backend(seen.clone(), vendor);
    let thread = std::thread::spawn(move || {
        // it ends with an error when the client goes in the middle of something
        let _ = server.run(&mut backend);
    });
    (path, seen, thread)
}

#[test]
fn registers_pushes_memory_and_interrupts_work_with_a_server_that_is_not_ours() {
    let (path, seen, thread) = foreign("whole", pci::VENDOR_ID);
    let t = VfioUser::open(&path).expect("open");
    assert_eq!(t.clock(), Clock::Wall);
    {
        let s = seen.lock().expect("lock");
        assert_eq!(s.resets, 1, "a device is reset before it is used");
        let command = (VFIO_PCI_CONFIG_REGION_INDEX, 4, vec![6, 0]);
        assert_eq!(s.writes, [command], "memory space and bus master");
        assert_eq!(s.vectors.len(), 4);
    }
    assert_eq!(t.read32(0x1234).expect("read"), 0x1234);
    t.write32(0x1000, 0xa1b2_c3d4).expect("write");
    let line = std::array::from_fn(|i| i as u8);
    t.push(0x40, &line).expect("push");
    {
        let s = seen.lock().expect("lock");
        let register = (0, 0x1000, 0xa1b2_c3d4u32.to_le_bytes().to_vec());
        assert_eq!(s.writes[1..], [register, (2, 0x40, line.to_vec())]);
    }

    let m = t.alloc_dma(5000).expect("memory");
    assert_eq!(m.len(), 8192);
    assert_eq!(m.to_vec(0, 8192), [0; 8192]);
    m.write(4999, b"across the page");
    {
        let s = seen.lock().expect("lock");
        let (size, file) = &s.maps[&m.iova()];
        assert_eq!(*size, 8192);
        let mut there = [0; 15];
        file.read_exact_at(&mut there, 4999).expect("shared");
        assert_eq!(&there, b"across the page");
        file.write_all_at(b"answer", 0).expect("shared");
    }
    assert_eq!(m.to_vec(0, 6), b"answer");
    let other = t.alloc_dma(1).expect("memory");
    assert!(other.iova() >= m.iova() + 8192 || other.iova() + 4096 <= m.iova());
    let iova = m.iova();
    drop(m);
    assert_eq!(seen.lock().expect("lock").unmapped, [(iova, 8192)]);

    assert!(!t.wait_interrupt(2, 0).expect("none yet"));
    t.write32(0x2000, 2).expect("write");
    assert!(t.wait_interrupt(2, LIMIT_NS).expect("interrupt"));
    assert!(!t.wait_interrupt(2, 0).expect("taken"));
    assert!(!t.wait_interrupt(1, 0).expect("another vector"));
    drop((t, other));
    thread.join().expect("server");
}

#[track_caller]
fn open_fails(path: &std::path::Path, why: &[&str]) {
    let patience = Duration::from_millis(300);
    let e = match VfioUser::open_with(path, patience) {
        Ok(_) => panic!("it opened"),
        Err(e) => e.to_string(),
    };
    for w in why.iter().chain(&["vfio-user:"]) {
        assert!(e.contains(w), "`{w}` is not in: {e}");
    }
}

#[test]
fn another_device_is_refused_by_its_number() {
    let (path, _, thread) = foreign("vendor", 0x8086);
    open_fails(&path, &["8086:0001", "not a Rocenic NIC"]);
    thread.join().expect("server");
}

#[test]
fn no_socket_a_stale_one_and_a_silent_one_are_told_apart() {
    let path = socket("none");
    open_fails(&path, &["there is no socket", "rocenic sim serve"]);
    let listener = UnixListener::bind(&path).expect("bind");
    open_fails(&path, &["no answer within 300 ms"]);
    drop(listener);
    open_fails(&path, &["nobody serves this socket any more"]);
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, "").expect("a file");
    open_fails(&path, &["nobody serves"]);
    let _ = std::fs::remove_file(&path);
    let long = std::env::temp_dir().join("x".repeat(200));
    open_fails(&long, &["too long"]);
}

#[test]
fn a_server_that_goes_is_told_at_once_by_every_call_and_its_memory_can_be_dropped() {
    // our own messages, so that the server can go at any of them
    let path = socket("gone");
    let listener = UnixListener::bind(&path).expect("bind");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a client");
        let own = socket.try_clone().expect("clone");
        let channel = rocenic_vfio_user::channel::Channel::new(socket).expect("channel");
        serve_until(&channel, &stopped);
        let _ = own.shutdown(std::net::Shutdown::Both);
    });
    let t = VfioUser::open(&path).expect("open");
    let m = t.alloc_dma(4096).expect("memory");
    t.wait(1000).expect("it is there");
    stop.send(()).expect("server");
    // the server looks at this request and goes without an answer
    let gone = |r: Result<(), TransportError>| match r {
        Err(TransportError::Gone(why)) => assert!(why.contains("closed the connection"), "{why}"),
        other => panic!("{other:?}"),
    };
    gone(t.write32(0, 1));
    gone(t.read32(0).map(|_| ()));
    gone(t.wait(LIMIT_NS));
    gone(t.wait(0));
    gone(t.wait_interrupt(0, LIMIT_NS).map(|_| ()));
    gone(t.alloc_dma(1).map(|_| ()));
    m.write(0, b"still mine");
    drop(m);
    server.join().expect("server");
    let _ = std::fs::remove_file(&path);
}

fn serve_until(
    channel: &rocenic_vfio_user::channel::Channel,
    stopped: &std::sync::mpsc::Receiver<()>,
) {
    use rocenic_vfio_user::message::*;
    let limit = Duration::from_nanos(LIMIT_NS);
    while let Ok(m) = channel.receive(Some(limit), limit) {
        if stopped.try_recv().is_ok() {
            return;
        }
        let mut body = m.body.clone();
        match m.header.command {
            command::GET_INFO => {
                body = DeviceInfo {
                    flags: VFIO_DEVICE_FLAGS_PCI,
                    ..DeviceInfo::default()
                }
                .to_bytes();
            }
            command::GET_REGION_INFO => {
                body = RegionInfo {
                    size: regs::BAR0_BYTES,
                    ..RegionInfo::default()
                }
                .to_bytes();
            }
            command::GET_IRQ_INFO => {
                body = IrqInfo {
                    count: 1,
                    ..IrqInfo::default()
                }
                .to_bytes();
            }
            command::REGION_READ => {
                let id = u32::from(pci::DEVICE_ID) << 16 | u32::from(pci::VENDOR_ID);
                body.extend_from_slice(&id.to_le_bytes());
            }
            _ => {}
        }
        let header = Header {
            flags: flag::REPLY,
            ..m.header
        };
        channel.send(header, &[&body], &[], limit).expect("answer");
    }
}
