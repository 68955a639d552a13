//! Messages that are received into several pieces of memory, with two NICs.
use super::pair::{A, B, LONG, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, exchange};
use std::sync::Arc;

#[test]
fn a_message_fills_the_pieces_of_its_receive_in_order() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<Endpoint>(&config.link);
    const LENGTHS: [usize; 5] = [9000, 1, 4096, 0, 8999];
    let data = Arc::new(payload(9000, 3));
    let expected = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(9000, Access::NONE)?;
        mr.write(0, &data);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let mut qp = qp.connect(&Connection::to(from_b.hear(&c, LONG)?))?;
        for len in LENGTHS {
            qp.post_send(&SendRequest::send(&[mr.slice(0..len)?]))?;
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
        }
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        // two regions, places in no order, alignments of all sorts
        let one = pd.alloc_mr(20_000, Access::LOCAL_WRITE)?;
        let two = pd
            .mr(20_000, Access::LOCAL_WRITE)
            .page_offset(77)
            .register()?;
        let mut qp = pd.qp(&cq, &cq).recv_depth(8).build()?.init()?;
        let pieces = [
            one.slice(10_001..10_064)?,
            two.slice(5..4101)?,
            one.slice(0..1)?,
            two.slice(9000..9000 + 9000 - 63 - 4096 - 1)?,
        ];
        for id in 0..LENGTHS.len() as u64 {
            qp.post_recv(&RecvRequest::new(&pieces).id(id))?;
        }
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&Connection::to(peer))?;
        to_a.say(&c, at);
        for (id, len) in LENGTHS.into_iter().enumerate() {
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            let want = (id as u64, Status::Success, len as u32);
            ensure!((w.id, w.status, w.byte_len) == want, "{w:?}");
            // later messages go to the same places: what is there is at least the longest so far
            if id == 0 {
                let mut got = one.to_vec(10_001..10_064);
                got.extend(two.to_vec(5..4101));
                got.extend(one.to_vec(0..1));
                got.extend(two.to_vec(9000..9000 + 9000 - 63 - 4096 - 1));
                ensure!(got == *expected, "the pieces differ from the message");
            }
        }
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}
