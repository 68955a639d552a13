//! Two NICs joined by unix datagram sockets, each in a simulation that knows nothing of the other's time.
use super::pair::{A, B, host, payload};
use anyhow::{Result, bail};
use rocenic_driver::*;
use rocenic_sim::wire::{Faults, UnixAddress, UnixEnd, UnixPort};
use rocenic_testbench::system::{Solo, SoloConfig};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

const LEN: usize = 100_000;
/// Simulated time without a word from the other side, after which it is given up.
const PATIENCE_NS: u64 = 100_000_000;
/// Simulated time between two looks.
const LOOK_NS: u64 = 4_000;

/// The other program's next word; this NIC runs meanwhile.
fn hear<T>(c: &Context, from: &Receiver<T>) -> Result<T> {
    let end = c.now_ns() + PATIENCE_NS;
    while c.now_ns() < end {
        match from.try_recv() {
            Ok(v) => return Ok(v),
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => c.wait(LOOK_NS)?,
        }
    }
    bail!("no word from the other program")
}

fn joined(name: &str, faults: &Faults) {
    let library = super::library();
    let dir = std::env::temp_dir().join(format!("rocenic-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for sockets");
    let end = |local: &str, remote: &str, seed| {
        let address = UnixAddress {
            local: dir.join(local),
            remote: dir.join(remote),
        };
        let port = UnixPort::open(&address).unwrap_or_else(|e| panic!("{e}"));
        UnixEnd::new(port, faults, seed, None)
    };
    let (end_a, end_b) = (end("a", "b", 1), end("b", "a", 2));
    let (to_b, from_a) = channel::<Endpoint>();
    let (to_a, from_b) = channel::<(Endpoint, RemoteMemory)>();
    let (over, is_over) = channel::<()>();
    let data = payload(LEN, 3);
    let text = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(LEN, Access::NONE)?;
        mr.write(0, &text);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.send(qp.endpoint()?)?;
        let (peer, memory) = hear(&c, &from_b)?;
        let mut qp = qp.connect(&Connection::to(peer).timeout(7))?;
        qp.post_send(&SendRequest::write(&[mr.all()], memory).id(1))?;
        qp.post_send(&SendRequest::send(b"done").id(2))?;
        for _ in 0..2 {
            cq.wait(PATIENCE_NS)?.ok()?;
        }
        over.send(())?;
        Ok(())
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = hear(&c, &from_a)?;
        let at = qp.endpoint()?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        qp.post_recv(&RecvRequest::new(&[note.all()]).id(9))?;
        to_a.send((at, mr.remote(0..LEN)?))?;
        cq.wait(PATIENCE_NS)?.ok()?;
        // A may have lost our last acknowledgement
        hear(&c, &is_over)?;
        Ok(mr.to_vec(0..LEN))
    };
    let solo = |seed| {
        let config = SoloConfig {
            seed,
            ..SoloConfig::default()
        };
        Solo::new(&library, config)
    };
    let (a, b) = std::thread::scope(|s| {
        let b = s.spawn(|| solo(2).run_wired(b, end_b));
        (solo(1).run_wired(a, end_a), b.join())
    });
    let _ = std::fs::remove_dir_all(&dir);
    let ((), _, end_a) = a.unwrap_or_else(|e| panic!("{e}"));
    let (got, _, _) = b.expect("B's thread").unwrap_or_else(|e| panic!("{e}"));
    assert!(got == data, "B's memory differs");
    let counts = end_a.counts();
    eprintln!("{counts:?}");
    let lost = counts[0].dropped + counts[1].dropped;
    assert_eq!(lost > 0, faults.drop > 0.0, "{counts:?}");
}

#[test]
fn nics_joined_by_unix_datagrams_move_data() {
    joined("joined", &Faults::default());
}
#[test]
fn nics_joined_by_unix_datagrams_move_data_in_spite_of_losses() {
    let faults = Faults {
        drop: 0.1,
        ..Faults::default()
    };
    joined("lossy", &faults);
}
