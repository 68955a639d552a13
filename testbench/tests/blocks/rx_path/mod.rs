//! `qp::RxPath`: each rule of the responder, against a model of the InfiniBand rules.
mod answers;
mod bench;
mod counts;
mod host;
mod invalidate;
mod model;
mod reads;
mod receive_queue;
mod refused;
mod requests;
mod scatter;
mod shared;
mod states;
mod traffic;
mod unreliable;

use bench::*;
use host::Region;
use model::{Packet, Qp, Rqe, op};
use rocenic_contract::cmd::{access, qp_state};
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::Pause;

const QPN: u32 = 0x2a5;
const PD: u16 = 0x1234;
const RKEY: u32 = 0x0abc_de01;
const VA: u64 = 0x5000_0000_0123;
const IOVA: u64 = 0x9_8765_4321_0000;
const SIZE: u64 = 1 << 20;
const PSN: u32 = 0xff_fffd;

fn region() -> Region {
    Region {
        key: RKEY,
        pd: PD,
        rights: access::LOCAL_WRITE
            | access::REMOTE_WRITE
            | access::REMOTE_READ
            | access::REMOTE_ATOMIC,
        va: VA,
        len: SIZE,
        iova: IOVA,
    }
}
fn buffer(at: u64, len: u64) -> Rqe {
    Rqe {
        va: VA + at,
        len,
        lkey: RKEY,
        more: vec![],
        unreadable: false,
    }
}
/// One QP in RTR that begins just below the wrap of the PSN, and a region.
fn one(pmtu: u64) -> Bench {
    let mut b = Bench::new();
    b.region(region());
    b.connect(QPN, Qp::new(PD, pmtu, PSN));
    b
}
