//! Keys of a region over its life, with two NICs.
use super::pair::{A, B, LONG, completes, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, Solo, SoloConfig, exchange};

/// A message from A that takes a key away from B; what B's host sees, and what A may still do.
#[test]
fn a_message_takes_a_key_away_and_the_region_lives_on_under_the_next_one() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<[Endpoint; 2]>(&config.link);
    let (to_a, mut from_b) = exchange::<([Endpoint; 2], RemoteMemory)>(&config.link);
    let (new_key, mut hear_key) = exchange::<RemoteMemory>(&config.link);
    let (a_done, mut hear_a) = exchange::<()>(&config.link);
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let one = pd.qp(&cq, &cq).build()?.init()?;
        let two = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, [one.endpoint()?, two.endpoint()?]);
        let ([p, q], memory) = from_b.hear(&c, LONG)?;
        let mut one = one.connect(&Connection::to(p))?;
        let mut two = two.connect(&Connection::to(q))?;
        let done = |status: Status| -> Result<()> {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == status, "{w:?}");
            Ok(())
        };
        one.post_send(&SendRequest::write(b"first", memory))?;
        one.post_send(&SendRequest::send_invalidate(b"take it", memory.rkey))?;
        done(Status::Success)?;
        done(Status::Success)?;
        let memory = hear_key.hear(&c, LONG)?;
        one.post_send(&SendRequest::write(b"again", memory))?;
        done(Status::Success)?;
        // not a key of B's any more: the message arrives, its completion at B is the error
        two.post_send(&SendRequest::send_invalidate(b"gone", memory.rkey ^ 1))?;
        done(Status::Success)?;
        a_done.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let mut mr = pd.alloc_mr(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let mut one = pd.qp(&cq, &cq).build()?.init()?;
        let mut two = pd.qp(&cq, &cq).build()?.init()?;
        one.post_recv(&RecvRequest::new(&[note.all()]).id(1))?;
        two.post_recv(&RecvRequest::new(&[note.all()]).id(2))?;
        let [p, q] = from_a.hear(&c, LONG)?;
        let at = [one.endpoint()?, two.endpoint()?];
        let _one = one.connect(&Connection::to(p))?;
        let _two = two.connect(&Connection::to(q))?;
        to_a.say(&c, (at, mr.remote(0..64)?));
        let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
        ensure!((w.id, w.status) == (1, Status::Success), "{w:?}");
        ensure!(w.invalidated == Some(mr.rkey()) && w.byte_len == 7, "{w:?}");
        ensure!(mr.to_vec(0..5) == b"first");
        mr.rekey()?;
        new_key.say(&c, mr.remote(0..64)?);
        let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
        ensure!((w.id, w.status) == (2, Status::RemInvReqErr), "{w:?}");
        hear_a.hear(&c, 2 * LONG)?;
        ensure!(mr.to_vec(0..5) == b"again");
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_region_with_a_new_key_is_written_under_that_one_and_under_no_other() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, [RemoteMemory; 3])>(&config.link);
    let (a_done, mut hear_a) = exchange::<()>(&config.link);
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, keys) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        qp.post_send(&SendRequest::write(b"new", keys[2]).id(1))?;
        completes(&c, &cq, 1, Status::Success)?;
        qp.post_send(&SendRequest::write(b"old", keys[1]).id(2))?;
        completes(&c, &cq, 2, Status::RemAccessErr)?;
        a_done.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mut mr = pd.alloc_mr(64, rights)?;
        let mut keys = [mr.remote(0..64)?; 3];
        for k in &mut keys[1..] {
            mr.rekey()?;
            *k = mr.remote(0..64)?;
        }
        ensure!(keys[0].rkey != keys[1].rkey && keys[1].rkey != keys[2].rkey);
        ensure!(
            keys.iter()
                .all(|k| k.rkey >> 8 == keys[0].rkey >> 8 && k.va == mr.va())
        );
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&Connection::to(peer).access(Access::REMOTE_WRITE))?;
        to_a.say(&c, (at, keys));
        hear_a.hear(&c, 2 * LONG)?;
        ensure!(mr.to_vec(0..3) == b"new");
        // a key that is gone is still a region that can be made anew
        mr.destroy()?;
        pd.alloc_mr(64, rights)?;
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

/// B takes the key away by its own queue while A writes under it.
#[test]
fn a_local_invalidate_ends_all_use_of_its_key_before_it_completes() {
    const BYTES: usize = 1 << 20;
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<[Endpoint; 2]>(&config.link);
    let (to_a, mut from_b) = exchange::<([Endpoint; 2], RemoteMemory)>(&config.link);
    let (failed, mut hear_failed) = exchange::<()>(&config.link);
    let (new_key, mut hear_key) = exchange::<RemoteMemory>(&config.link);
    let (over, mut hear_over) = exchange::<()>(&config.link);
    let data = payload(BYTES, 4);
    let sent = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(BYTES, Access::NONE)?;
        mr.write(0, &sent);
        let one = pd.qp(&cq, &cq).build()?.init()?;
        let two = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, [one.endpoint()?, two.endpoint()?]);
        let ([p, q], memory) = from_b.hear(&c, LONG)?;
        let mut one = one.connect(&Connection::to(p))?;
        let mut two = two.connect(&Connection::to(q))?;
        one.post_send(&SendRequest::write(&[mr.slice(0..BYTES)?], memory))?;
        let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
        ensure!(w.status == Status::RemAccessErr, "{w:?}");
        failed.say(&c, ());
        let memory = hear_key.hear(&c, LONG)?;
        two.post_send(&SendRequest::write(b"again", memory))?;
        let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
        ensure!(w.status == Status::Success, "{w:?}");
        over.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mut mr = pd.alloc_mr(BYTES, rights)?;
        let other = pd.alloc_mr(64, rights)?;
        let one = pd.qp(&cq, &cq).build()?.init()?;
        let two = pd.qp(&cq, &cq).build()?.init()?;
        let [p, q] = from_a.hear(&c, LONG)?;
        let at = [one.endpoint()?, two.endpoint()?];
        let to = |e| Connection::to(e).access(Access::REMOTE_WRITE);
        let _one = one.connect(&to(p))?;
        let mut two = two.connect(&to(q))?;
        to_a.say(&c, (at, mr.remote(0..BYTES)?));
        let end = c.now_ns() + LONG;
        while mr.to_vec(0..64) != data[..64] {
            ensure!(c.now_ns() < end, "nothing comes");
            c.wait(200)?;
        }
        two.post_send(&SendRequest::local_invalidate(mr.rkey()).id(7))?;
        let w = completes(&c, &cq, 7, Status::Success)?;
        ensure!(w.opcode == CqeOpcode::LocalInv, "{w:?}");
        let then = mr.to_vec(0..BYTES);
        let came = then.iter().zip(&data).take_while(|(a, b)| a == b).count();
        println!("{came} of {BYTES} bytes came before the key was gone");
        ensure!(came > 0 && came < BYTES, "in the middle of the message");
        hear_failed.hear(&c, 2 * LONG)?;
        ensure!(
            mr.to_vec(0..BYTES) == then,
            "written after the key was gone"
        );
        mr.rekey()?;
        new_key.say(&c, mr.remote(0..BYTES)?);
        hear_over.hear(&c, 2 * LONG)?;
        ensure!(mr.to_vec(0..5) == b"again");
        // from inside: a dead key is good for nothing, and cannot be taken away again
        let alone = || -> Result<Qp<Rts>> {
            let qp = pd.qp(&cq, &cq).build()?.init()?;
            let own = qp.endpoint()?;
            Ok(qp.connect(&Connection::to(own))?)
        };
        let mut x = alone()?;
        x.post_send(&SendRequest::local_invalidate(other.rkey()).unsignaled())?;
        x.post_send(&SendRequest::send(&[other.all()]).id(8))?;
        completes(&c, &cq, 8, Status::LocProtErr)?;
        let mut y = alone()?;
        y.post_send(&SendRequest::local_invalidate(other.rkey()).id(9))?;
        completes(&c, &cq, 9, Status::MwBindErr)?;
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

/// One queue takes a key away, gives the region the next one and uses that, posted all at once.
#[test]
fn a_queue_gives_a_region_its_next_key_between_two_messages() {
    let library = super::library();
    let a = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let (pd, other) = (c.alloc_pd()?, c.alloc_pd()?);
        let cq = c.create_cq(64)?;
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let source = pd.alloc_mr(4096, Access::NONE)?;
        let mut mr = pd.alloc_mr(4096, rights)?;
        let mut foreign = other.alloc_mr(64, rights)?;
        let mut gone = pd.alloc_mr(64, rights)?;
        let alone = || -> Result<Qp<Rts>> {
            let qp = pd.qp(&cq, &cq).build()?.init()?;
            let to = Connection::to(qp.endpoint()?).access(Access::REMOTE_WRITE);
            Ok(qp.connect(&to)?)
        };
        let done = |id: u64, status: Status| -> Result<CqeOpcode> {
            let w = completes(&c, &cq, id, status)?;
            Ok(w.opcode)
        };
        let mut qp = alone()?;
        let mut old = mr.remote(0..4096)?;
        for round in 0..20u8 {
            let (first, second) = (payload(4096, round.into()), [!round; 32]);
            source.write(0, &first);
            qp.post_send(&SendRequest::write(&[source.all()], old).id(1))?;
            qp.post_send(&SendRequest::local_invalidate(old.rkey).unsignaled())?;
            qp.post_send(&SendRequest::register(&mut mr).id(2))?;
            let new = mr.remote(0..4096)?;
            ensure!(new.rkey != old.rkey);
            // the new key on the other side, and on both (too long for the WQE)
            qp.post_send(&SendRequest::write(&second, new).id(3))?;
            qp.post_send(
                &SendRequest::write(&[mr.slice(100..200)?], new.slice(1000..1100)?).id(4),
            )?;
            done(1, Status::Success)?;
            ensure!(done(2, Status::Success)? == CqeOpcode::RegMr);
            done(3, Status::Success)?;
            done(4, Status::Success)?;
            let mut want = first;
            want[..32].copy_from_slice(&second);
            want.copy_within(100..200, 1000);
            let differs = mr
                .to_vec(0..4096)
                .iter()
                .zip(&want)
                .position(|(a, b)| a != b);
            ensure!(differs.is_none(), "round {round}: byte {differs:?}");
            old = new;
        }
        // a region that has its key, a key of another domain, a region that is no more
        let r = SendRequest::register(&mut mr);
        qp.post_send(&r.id(5))?;
        done(5, Status::MwBindErr)?;
        let mut qp = alone()?;
        qp.post_send(&SendRequest::write(b"old", old).id(6))?;
        done(6, Status::Success)?;
        qp.post_send(&SendRequest::register(&mut foreign).id(7))?;
        done(7, Status::MwBindErr)?;
        let mut qp = alone()?;
        let r = SendRequest::register(&mut gone);
        gone.destroy()?;
        qp.post_send(&r.id(8))?;
        done(8, Status::MwBindErr)?;
        Ok(())
    };
    Solo::new(&library, SoloConfig::default())
        .run(a, |f| panic!("a frame on the wire: {f:?}"))
        .unwrap_or_else(|e| panic!("{e}"));
}
