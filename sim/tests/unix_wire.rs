//! The wire as a unix datagram socket, seen from its other end.
use rocenic_sim::wire::{UnixAddress, UnixError, UnixPort};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

/// A directory whose paths are short enough for a socket.
struct Dir(PathBuf);
impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("rocenic-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for sockets");
        Dir(dir)
    }
    fn address(&self, local: &str, remote: &str) -> UnixAddress {
        UnixAddress {
            local: self.0.join(local),
            remote: self.0.join(remote),
        }
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
/// A frame that no other frame equals.
fn frame(number: usize, len: usize) -> Vec<u8> {
    let tag = number.to_le_bytes();
    (0..len).map(|i| tag[i % 4] ^ i as u8).collect()
}

#[test]
fn an_address_names_both_sockets() {
    let good: UnixAddress = "unix:/tmp/a,/tmp/b".parse().expect("an address");
    assert_eq!(good.local, PathBuf::from("/tmp/a"));
    assert_eq!(good.remote, PathBuf::from("/tmp/b"));
    for bad in [
        "",
        "/tmp/a,/tmp/b",
        "unix:/tmp/a",
        "unix:,/tmp/b",
        "unix:/tmp/a,",
    ] {
        let e = bad.parse::<UnixAddress>().expect_err(bad);
        assert!(e.to_string().contains("unix:LOCAL,REMOTE"), "{e}");
    }
}

#[test]
fn a_datagram_is_a_frame_in_either_direction() {
    let dir = Dir::new("frames");
    let mut port = UnixPort::open(&dir.address("nic", "peer")).expect("a port");
    let peer = UnixDatagram::bind(dir.0.join("peer")).expect("a socket");
    peer.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let mut buffer = vec![0; 1 << 16];
    for (i, len) in [14, 60, 64, 1514, 4214, 9014].into_iter().enumerate() {
        let out = frame(i, len);
        port.send(out.clone()).expect("sent");
        let n = peer.recv(&mut buffer).expect("a datagram");
        assert!(buffer[..n] == out, "frame of {len} bytes to the peer");
        let back = frame(i + 100, len);
        peer.send_to(&back, dir.0.join("nic")).expect("sent");
        assert!(
            port.recv().expect("no error") == Some(back),
            "frame of {len} bytes from the peer"
        );
    }
    assert_eq!(port.recv().expect("no error"), None);
    peer.send_to(&[1; 13], dir.0.join("nic")).expect("sent");
    assert_eq!(
        port.recv().expect("no error"),
        None,
        "13 bytes are no frame"
    );
    assert_eq!(port.runts, 1);
}

#[test]
fn frames_wait_for_a_neighbour_that_reads_slowly() {
    let dir = Dir::new("slow");
    let mut port = UnixPort::open(&dir.address("nic", "peer")).expect("a port");
    let peer = UnixDatagram::bind(dir.0.join("peer")).expect("a socket");
    peer.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    // far more than a socket holds
    const FRAMES: usize = 2_000;
    for i in 0..FRAMES {
        port.send(frame(i, 1000)).expect("sent");
    }
    let mut buffer = vec![0; 2000];
    for i in 0..FRAMES {
        port.flush().expect("flushed");
        let n = peer.recv(&mut buffer).expect("a datagram");
        assert!(buffer[..n] == frame(i, 1000), "frame {i}");
    }
    assert_eq!(port.unheard, 0);
}

#[test]
fn a_neighbour_may_come_and_go() {
    let dir = Dir::new("gone");
    let mut port = UnixPort::open(&dir.address("nic", "peer")).expect("a port");
    port.send(frame(0, 60)).expect("nobody is there");
    assert_eq!(port.unheard, 1);
    let mut buffer = [0; 100];
    for i in 1..4 {
        let peer = UnixDatagram::bind(dir.0.join("peer")).expect("a socket");
        port.send(frame(i, 60)).expect("sent");
        let n = peer.recv(&mut buffer).expect("a datagram");
        assert!(buffer[..n] == frame(i, 60), "frame {i}");
        drop(peer);
        // its file is still there, but nobody listens
        port.send(frame(9, 60)).expect("nobody is there");
        assert_eq!(port.unheard, 1 + i as u64);
        std::fs::remove_file(dir.0.join("peer")).expect("the file of the socket");
    }
}

#[test]
fn a_path_is_taken_over_only_from_the_dead() {
    let dir = Dir::new("paths");
    let address = dir.address("nic", "peer");
    drop(UnixDatagram::bind(&address.local).expect("a socket"));
    assert!(address.local.exists(), "a dead program's socket stays");
    let first = UnixPort::open(&address).expect("the dead one is replaced");
    let second = UnixPort::open(&address).err().expect("it is in use");
    assert!(matches!(second, UnixError::InUse(_)), "{second}");
    drop(first);
    assert!(!address.local.exists(), "a port cleans up after itself");
    std::fs::write(&address.local, "precious").expect("a file");
    let third = UnixPort::open(&address).err().expect("it is no socket");
    assert!(matches!(third, UnixError::NoSocket(_)), "{third}");
    assert_eq!(
        std::fs::read(&address.local).expect("the file"),
        b"precious"
    );
    let long = dir.address(&"x".repeat(200), "peer");
    let e = UnixPort::open(&long).err().expect("too long").to_string();
    assert!(e.contains(&"x".repeat(200)), "{e}");
}
