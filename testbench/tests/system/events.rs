//! What the host is told, and when, with two NICs: solicited completions, and the first packet of a connection.
use super::pair::{A, B, LONG, completes, host, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::eqe::event::Event;
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, exchange};

/// Longer than a message needs to arrive and its event to be written.
const WHILE: u64 = 60_000;

fn silent(c: &Context) -> Result<()> {
    let e = c.wait_event(WHILE);
    ensure!(matches!(e, Err(Error::Timeout { .. })), "an event: {e:?}");
    Ok(())
}
fn told(c: &Context, event: Event, number: u32) -> Result<()> {
    let e = c.wait_event(LONG).map_err(|e| stuck(c, e))?;
    ensure!((e.event, e.number) == (event, number), "{e:?}");
    Ok(())
}

#[test]
fn a_queue_armed_for_solicited_completions_wakes_for_those_and_for_errors_only() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (go, mut hear) = exchange::<()>(&config.link);
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        let send = SendRequest::send(b"quiet");
        let write = SendRequest::write(b"quiet", memory);
        // a WRITE without a receive wakes nobody, solicited or not
        let rounds = [
            vec![
                send,
                send.immediate(1),
                write.solicited(),
                write.immediate(2),
            ],
            vec![send.solicited()],
            vec![send, write.immediate(3).solicited()],
            vec![send],
        ];
        for round in rounds {
            hear.hear(&c, 2 * LONG)?;
            for r in round {
                qp.post_send(&r)?;
                let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
                ensure!(w.status == Status::Success, "{w:?}");
            }
        }
        hear.hear(&c, 2 * LONG)?;
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let (sends, cq) = (c.create_cq(16)?, c.create_cq(64)?);
        let mr = pd.alloc_mr(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let mut qp = pd.qp(&sends, &cq).build()?.init()?;
        for id in 0..9 {
            qp.post_recv(&RecvRequest::new(&[mr.all()]).id(id))?;
        }
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let qp = qp.connect(&Connection::to(peer))?;
        to_a.say(&c, (at, mr.remote(0..64)?));
        let mut next = 0;
        let mut poll = |n: u64| -> Result<()> {
            for _ in 0..n {
                completes(&c, &cq, next, Status::Success)?;
                next += 1;
            }
            Ok(())
        };
        cq.arm_solicited()?;
        go.say(&c, ());
        silent(&c)?;
        go.say(&c, ());
        told(&c, Event::Completion, cq.number())?;
        // one event for one arming
        poll(4)?;
        silent(&c)?;
        cq.arm_solicited()?;
        go.say(&c, ());
        told(&c, Event::Completion, cq.number())?;
        poll(2)?;
        // a queue that is not armed says nothing
        go.say(&c, ());
        silent(&c)?;
        poll(1)?;
        // errors are solicited
        cq.arm_solicited()?;
        silent(&c)?;
        go.say(&c, ());
        let _failed = qp.fail()?;
        told(&c, Event::Completion, cq.number())?;
        for _ in 0..2 {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::WrFlushErr, "{w:?}");
        }
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn the_first_packet_of_a_connection_is_told_once_and_only_in_rtr() {
    for early in [true, false] {
        let library = super::library();
        let config = PairConfig::default();
        let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
        let (to_a, mut from_b) = exchange::<Endpoint>(&config.link);
        let (go, mut hear) = exchange::<()>(&config.link);
        let a = move |t| -> Result<()> {
            let c = Context::open(t)?;
            c.set_port(A)?;
            let pd = c.alloc_pd()?;
            let cq = c.create_cq(64)?;
            let qp = pd.qp(&cq, &cq).build()?.init()?;
            to_b.say(&c, qp.endpoint()?);
            let mut qp = qp.connect(&Connection::to(from_b.hear(&c, LONG)?))?;
            for _ in 0..2 {
                qp.post_send(&SendRequest::send(b"hello"))?;
                let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
                ensure!(w.status == Status::Success, "{w:?}");
            }
            hear.hear(&c, 2 * LONG)?;
            Ok(())
        };
        let b = move |t| -> Result<()> {
            let c = Context::open(t)?;
            c.set_port(B)?;
            let pd = c.alloc_pd()?;
            let cq = c.create_cq(64)?;
            let mr = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
            let mut qp = pd.qp(&cq, &cq).build()?.init()?;
            for id in 0..2 {
                qp.post_recv(&RecvRequest::new(&[mr.all()]).id(id))?;
            }
            let peer = from_a.hear(&c, LONG)?;
            let (at, to) = (qp.endpoint()?, Connection::to(peer));
            let qp = qp.ready_to_receive(&to)?;
            // a queue pair that goes takes its completions with it
            let _qp = if early {
                to_a.say(&c, at);
                told(&c, Event::CommEstablished, qp.number())?;
                silent(&c)?;
                qp.ready_to_send(&to)?
            } else {
                let qp = qp.ready_to_send(&to)?;
                to_a.say(&c, at);
                qp
            };
            silent(&c)?;
            go.say(&c, ());
            for _ in 0..2 {
                cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            }
            Ok(())
        };
        Pair::new(&library, config)
            .run(a, b)
            .unwrap_or_else(|e| panic!("{e}"));
    }
}
