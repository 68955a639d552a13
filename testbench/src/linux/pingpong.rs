//! `ibv_rc_pingpong`: both sides send in turn. It sends from the buffer it receives into, so each of its messages but the
//! first is what we sent before: every byte goes through its memory and comes back.
use super::host::Host;
use super::talk::{DONE, Key, PINGPONG_BYTES};
use anyhow::{Context, Result, ensure};
use rocenic_driver::{Access, Cq, Init, Mr, Pmtu, Qp, RecvRequest, Rts, SendRequest};

/// Three packets, the last with padding.
const SIZE: usize = 2_501;
const MTU: Pmtu = Pmtu::Mtu1024;
const ROUNDS: usize = 60;
/// What the client's buffer holds at first.
const FIRST: u8 = 0x7b;

fn options() -> String {
    format!(
        "ibv_rc_pingpong -d rxe0 -g 1 -s {SIZE} -m {} -n {ROUNDS}",
        MTU.bytes()
    )
}

/// Our side of it.
struct Side {
    send_cq: Cq,
    recv_cq: Cq,
    /// A place for each message we send, and for each we get.
    sent: Mr,
    got: Mr,
}
impl Side {
    fn new(h: &mut Host) -> Result<(Side, Qp<Init>, Key)> {
        let (send_cq, recv_cq) = (h.c.create_cq(64)?, h.c.create_cq(64)?);
        let sent = h.pd.alloc_mr(SIZE * ROUNDS, Access::NONE)?;
        let got = h.pd.alloc_mr(SIZE * ROUNDS, Access::LOCAL_WRITE)?;
        let data = h.bytes(SIZE * ROUNDS);
        sent.write(0, &data);
        let psn = h.random.below(1 << 24) as u32;
        let qp = h.pd.qp(&send_cq, &recv_cq).psn(psn).build()?.init()?;
        let at = qp.endpoint()?;
        let key = Key {
            qpn: at.qpn,
            psn: at.psn,
            rkey: 0,
            va: 0,
            ipv4: at.ipv4,
            reads: 0,
        };
        let side = Side {
            send_cq,
            recv_cq,
            sent,
            got,
        };
        Ok((side, qp, key))
    }
    fn place(i: usize) -> std::ops::Range<usize> {
        i * SIZE..(i + 1) * SIZE
    }
    fn post_recv(&self, qp: &mut Qp<Rts>, i: usize) -> Result<()> {
        if i < ROUNDS {
            qp.post_recv(&RecvRequest::new(&[self.got.slice(Self::place(i))?]).id(i as u64))?;
        }
        Ok(())
    }
    fn post_send(&self, qp: &mut Qp<Rts>, i: usize) -> Result<()> {
        let piece = [self.sent.slice(Self::place(i))?];
        qp.post_send(&SendRequest::send(&piece).id(i as u64))?;
        Ok(())
    }
    /// Message `i` of the tool, which must be `expected`.
    fn receive(&self, h: &mut Host, i: usize, expected: &[u8]) -> Result<()> {
        let w = h.completion(&self.recv_cq)?;
        ensure!(
            (w.id, w.byte_len as usize) == (i as u64, SIZE),
            "message {i}: {w:?}"
        );
        let got = self.got.to_vec(Self::place(i));
        let differs = got.iter().zip(expected).position(|(a, b)| a != b);
        ensure!(differs.is_none(), "message {i} differs at byte {differs:?}");
        // those of our messages that are acknowledged
        while let Some(w) = self.send_cq.poll_one()? {
            w.ok()?;
        }
        Ok(())
    }
    fn data(&self, i: usize) -> Vec<u8> {
        self.sent.to_vec(Self::place(i))
    }
}

/// The tool begins.
pub fn from_guest(h: &mut Host) -> Result<()> {
    let mut talk = h.called_by(|port, host| format!("{} -p {port} {host}", options()))?;
    let (side, qp, key) = Side::new(h)?;
    let word = h.until("its key", || talk.take(PINGPONG_BYTES))?;
    let mut qp = h.connect(qp, &Key::from_pingpong(&word)?, MTU, 1)?;
    side.post_recv(&mut qp, 0)?;
    talk.say(&key.pingpong())?;
    h.until("`done`", || talk.take(DONE.len()))?;
    let mut expected = vec![FIRST; SIZE];
    for i in 0..ROUNDS {
        side.receive(h, i, &expected)?;
        side.post_recv(&mut qp, i + 1)?;
        side.post_send(&mut qp, i)?;
        expected = side.data(i);
    }
    // its last ACK may be lost, and it with its queue pair be gone: its exit status tells that it has our last message
    h.finish()?;
    Ok(())
}

/// We begin.
pub fn to_guest(h: &mut Host) -> Result<()> {
    let mut talk = h.call(&options())?;
    let (side, qp, key) = Side::new(h)?;
    talk.say(&key.pingpong())?;
    let word = h.until("its key", || talk.take(PINGPONG_BYTES))?;
    let mut qp = h.connect(qp, &Key::from_pingpong(&word)?, MTU, 1)?;
    talk.say(DONE)?;
    for i in 0..ROUNDS {
        side.post_recv(&mut qp, i)?;
        side.post_send(&mut qp, i)?;
        let expected = side.data(i);
        side.receive(h, i, &expected).context("echo")?;
    }
    h.finish()?;
    Ok(())
}
