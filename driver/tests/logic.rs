//! The driver's own logic against a model of the registers; no data moves here.
mod common;
use common::*;
use rocenic_contract::cmd::{
    create_mr::CreateMr, modify_qp::ModifyQp, opcode::Command, status::CmdError,
};
use rocenic_contract::cqe::{self, Cqe};
use rocenic_contract::eqe::{Eqe, event::Event};
use rocenic_contract::regs::{control, doorbell, request_limits::RequestLimits};
use rocenic_contract::rules::Check;
use rocenic_contract::{LAYOUT_HASH, VERSION, caps, sge, wqe};
use rocenic_driver::*;

#[test]
fn a_device_with_another_contract_is_refused_and_the_error_names_both() {
    let m = RegisterModel::new();
    m.set(control::LAYOUT_HASH_LO, 1);
    let e = Context::open(m.transport()).err().unwrap();
    let device_hash = LAYOUT_HASH & !0xffff_ffff | 1;
    let (version, hash) = (VERSION, LAYOUT_HASH);
    assert_eq!(
        e,
        Error::ContractMismatch {
            device_version: VERSION,
            device_hash,
            version,
            hash
        }
    );
    assert!(
        e.to_string().contains("build both from the same source"),
        "{e}"
    );
    m.set(control::MAGIC, 0xffff_ffff);
    let e = Context::open(m.transport()).err().unwrap();
    assert!(
        matches!(
            e,
            Error::NotRocenic {
                found: 0xffff_ffff,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_device_that_never_gets_ready_or_shows_garbage_limits_is_an_error() {
    let m = RegisterModel::new();
    m.set(control::STATUS, 0);
    assert!(matches!(
        Context::open(m.transport()),
        Err(Error::NotReady { .. })
    ));
    let m = RegisterModel::new();
    m.set(control::LIMITS, 0xffff_ffff);
    assert!(matches!(
        Context::open(m.transport()),
        Err(Error::Device { .. })
    ));
}

#[test]
fn a_command_without_an_answer_ends_in_bounded_time() {
    let s = side(4);
    s.model.state.lock().unwrap().hang = true;
    let before = s.ctx.now_ns();
    let e = s.pd.alloc_mr(4096, Access::NONE).err().unwrap();
    assert!(
        matches!(
            e,
            Error::CommandTimeout {
                command: Command::CreateMr,
                ..
            }
        ),
        "{e}"
    );
    assert!(s.ctx.now_ns() - before < 20_000_000);
}

#[test]
fn a_refused_command_says_which_object_and_why() {
    let s = side(4);
    let number = Command::CreateMr.number();
    s.model
        .state
        .lock()
        .unwrap()
        .refuse
        .insert(number, CmdError::BadIndex.number());
    let e = s.pd.alloc_mr(4096, Access::NONE).err().unwrap();
    assert_eq!(
        e.to_string(),
        "memory region 1: CREATE_MR refused: BAD_INDEX (Number out of range, or nothing has that number.)"
    );
    s.model.state.lock().unwrap().refuse.insert(number, 0xee);
    let e = s.pd.alloc_mr(4096, Access::NONE).err().unwrap();
    assert!(matches!(e, Error::Device { .. }), "{e}");
}

#[test]
fn a_full_send_queue_refuses_and_a_completion_makes_room() {
    let mut s = side(4);
    let mr = s.pd.alloc_mr(4096, Access::NONE).unwrap();
    let big = [mr.slice(0..100).unwrap()];
    for i in 0..4 {
        s.qp.post_send(&SendRequest::send(&big).id(i)).unwrap();
    }
    let e = s.qp.post_send(&SendRequest::send(&big)).unwrap_err();
    let n = s.qp.number();
    assert_eq!(
        e.to_string(),
        format!("QP {n}: post_send refused: send queue full (4 of 4); poll the completion queue")
    );
    s.model.complete(s.cq.number(), sent(n, 1));
    assert_eq!(s.cq.poll_one().unwrap().unwrap().id, 1);
    // entry 0 was retired with it
    assert_eq!(s.qp.send_room(), 2);
    s.qp.post_send(&SendRequest::send(&big).id(4)).unwrap();
    assert_eq!(s.qp.send_room(), 1);
}

#[test]
fn rings_and_phases_survive_many_laps_and_the_wrap_of_the_16_bit_index() {
    let mut s = side(8);
    let n = s.qp.number();
    let data = [1u8, 2, 3];
    for i in 0..70_000u64 {
        s.qp.post_send(&SendRequest::send(&data).id(i)).unwrap();
        let w = s.model.wqe(n, (i % 8) as u16);
        assert_eq!((w.index, w.length), (i as u16, 3), "entry {i}");
        assert_eq!(s.cq.poll_one().unwrap(), None, "before completion {i}");
        s.model.complete(s.cq.number(), sent(n, i as u16));
        assert_eq!(s.cq.poll_one().unwrap().map(|c| c.id), Some(i));
        assert_eq!(s.cq.poll_one().unwrap(), None, "empty polls move nothing");
        if i % 1000 == 0 {
            s.model.state.lock().unwrap().pushes.clear();
        }
    }
}

#[test]
fn every_field_of_an_entry_is_written_again_after_the_ring_wraps() {
    let mut s = side(2);
    let n = s.qp.number();
    let mr = s.pd.alloc_mr(8192, Access::LOCAL_WRITE).unwrap();
    let remote = RemoteMemory {
        va: u64::MAX - 99,
        rkey: u32::MAX,
        len: 100,
    };
    let two = [mr.slice(0..50).unwrap(), mr.slice(4096..4146).unwrap()];
    for i in 0..2 {
        let r = SendRequest::write(&two, remote)
            .immediate(u32::MAX)
            .fence()
            .solicited();
        s.qp.post_send(&r.id(i)).unwrap();
    }
    s.model.complete(s.cq.number(), sent(n, 1));
    s.cq.poll_one().unwrap().unwrap();
    let empty: [u8; 0] = [];
    s.qp.post_send(&SendRequest::send(&empty).unsignaled())
        .unwrap();
    let want = wqe::Wqe {
        opcode: wqe::opcode::WqeOpcode::Send.number(),
        index: 2,
        qpn: n,
        ..Default::default()
    };
    assert_eq!(s.model.wqe(n, 0), want);
    // receive side
    let four = [two[0], two[1], two[0], two[1]];
    for _ in 0..2 {
        s.qp.post_recv(&RecvRequest::new(&four)).unwrap();
    }
    assert_eq!(s.model.rqe(n, 1).sge3_lkey, mr.lkey());
    let done = Cqe {
        opcode: CqeOpcode::Recv.number(),
        flags: cqe::flag::RECEIVE as u8,
        wqe_index: 0,
        qpn: n,
        ..Default::default()
    };
    s.model.complete(s.cq.number(), done);
    s.cq.poll_one().unwrap().unwrap();
    s.qp.post_recv(&RecvRequest::new(&two[..1])).unwrap();
    let r = s.model.rqe(n, 0);
    assert_eq!((r.sge0_lkey, r.sge1_lkey), (mr.lkey(), sge::END_LKEY));
    assert_eq!(
        (r.sge1_va, r.sge1_length, r.sge3_lkey),
        (0, 0, sge::END_LKEY)
    );
}

#[test]
fn short_messages_are_pushed_with_their_bytes_and_long_ones_ring_the_doorbell() {
    let mut s = side(8);
    let n = s.qp.number();
    let mr = s.pd.alloc_mr(4096, Access::NONE).unwrap();
    mr.write(0, &[7; 64]);
    for (i, len) in [1, 31, 32, 33].into_iter().enumerate() {
        s.qp.post_send(&SendRequest::send(&[mr.slice(0..len).unwrap()]))
            .unwrap();
        let state = s.model.state.lock().unwrap();
        assert_eq!(state.pushes.len(), (i + 1).min(3), "{len} bytes");
        if len <= 32 {
            let (addr, bytes) = state.pushes[i];
            assert_eq!(addr % 64, 0);
            let data = &bytes[wqe::inline::BASE..];
            assert!(data[..len].iter().all(|b| *b == 7) && data[len..].iter().all(|b| *b == 0));
            let w = wqe::Wqe::from_bytes(&bytes);
            assert_eq!((w.num_sge, w.length as usize), (0, len));
            assert_ne!(w.flags & wqe::flag::INLINE as u8, 0);
        }
    }
    let (register, d) = s.model.last_doorbell();
    assert_eq!((register, d.index, d.number as u32), (SQ, 4, n));
    let w = s.model.wqe(n, 3);
    assert_eq!((w.num_sge, w.sge0_va, w.sge0_lkey), (1, mr.va(), mr.lkey()));
}

#[test]
fn several_sends_ring_one_doorbell_and_the_first_refused_one_is_named() {
    let mut s = side(4);
    let mr = s.pd.alloc_mr(4096, Access::NONE).unwrap();
    let piece = [mr.all()];
    let before = s.model.state.lock().unwrap().doorbells.len();
    let (n, e) =
        s.qp.post_sends((0..6).map(|i| SendRequest::send(&piece).id(i)))
            .unwrap_err();
    assert!(n == 4 && matches!(e, Error::QueueFull { .. }), "{n} {e}");
    assert_eq!(s.model.state.lock().unwrap().doorbells.len(), before + 1);
    assert_eq!(s.model.last_doorbell().1.index, 4);
}

#[test]
fn requests_that_cannot_work_are_refused_before_the_ring_is_touched() {
    let mut s = side(4);
    let mr = s.pd.alloc_mr(4096, Access::NONE).unwrap();
    let other = s
        .ctx
        .alloc_pd()
        .unwrap()
        .alloc_mr(4096, Access::LOCAL_WRITE)
        .unwrap();
    let p = mr.all();
    let remote = RemoteMemory {
        va: 0,
        rkey: 1,
        len: 4095,
    };
    let mut refused = |r: &SendRequest<'_>, text: &str| {
        let e = s.qp.post_send(r).unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    refused(
        &SendRequest::send(&[p, p, p]),
        "3 pieces of memory; a request takes 2",
    );
    refused(
        &SendRequest::send(&[other.all()]),
        "another protection domain",
    );
    refused(
        &SendRequest::write(&[p], remote),
        "4096 bytes to or from a remote piece of 4095",
    );
    refused(
        &SendRequest::send(&[0u8; 33]),
        "33 bytes inline; the device takes 32",
    );
    refused(
        &SendRequest::read(&[p], remote),
        "this device does not do RDMA READ",
    );
    let e =
        s.qp.post_recv(&RecvRequest::new(&[p]))
            .unwrap_err()
            .to_string();
    assert!(e.contains("register it with Access::LOCAL_WRITE"), "{e}");
    assert_eq!((s.qp.send_room(), s.qp.recv_room()), (4, 4));
}

#[test]
fn a_device_that_does_less_is_asked_for_less() {
    let m = RegisterModel::new();
    let less = RequestLimits {
        send_sges: 1,
        recv_sges: 1,
        inline: 8,
        reserved: 0,
    };
    m.set(control::REQUEST_LIMITS, u32::from_le_bytes(less.to_bytes()));
    m.set(control::CAPS, (caps::SEND | caps::RC | caps::INLINE) as u32);
    let mut s = side_of(m, 4);
    let mr = s.pd.alloc_mr(4096, Access::LOCAL_WRITE).unwrap();
    let p = mr.slice(0..9).unwrap();
    let e =
        s.qp.post_send(&SendRequest::send(&[p, p]))
            .unwrap_err()
            .to_string();
    assert!(e.contains("2 pieces of memory; a request takes 1"), "{e}");
    let e =
        s.qp.post_recv(&RecvRequest::new(&[p, p]))
            .unwrap_err()
            .to_string();
    assert!(e.contains("2 pieces of memory; a request takes 1"), "{e}");
    let e =
        s.qp.post_send(&SendRequest::send(&[0u8; 9]))
            .unwrap_err()
            .to_string();
    assert!(e.contains("9 bytes inline; the device takes 8"), "{e}");
    let e =
        s.qp.post_send(&SendRequest::send(&[p]).immediate(1))
            .unwrap_err()
            .to_string();
    assert!(e.contains("does not do SEND with immediate"), "{e}");
    s.qp.post_send(&SendRequest::send(&[p])).unwrap();
    assert_eq!(
        s.model.wqe(s.qp.number(), 0).num_sge,
        1,
        "9 bytes do not go inline"
    );
    assert!(s.model.state.lock().unwrap().pushes.is_empty());
}

#[test]
fn garbage_completions_are_errors_and_the_next_completion_is_still_found() {
    let mut s = side(4);
    let n = s.qp.number();
    s.qp.post_send(&SendRequest::send(&[1u8]).id(77)).unwrap();
    let bad = [
        Cqe {
            qpn: 0xff_ffff,
            ..sent(n, 0)
        },
        Cqe {
            qpn: 1000,
            ..sent(n, 0)
        },
        Cqe {
            status: 0xee,
            ..sent(n, 0)
        },
        Cqe {
            opcode: 0x55,
            ..sent(n, 0)
        },
        Cqe {
            opcode: CqeOpcode::Recv.number(),
            ..sent(n, 0)
        },
        sent(n, 1),
        sent(n, 0xffff),
    ];
    for b in bad {
        s.model.complete(s.cq.number(), b);
        let e = s.cq.poll_one().unwrap_err();
        assert!(matches!(e, Error::Device { .. }), "{b:?}: {e}");
    }
    s.model.complete(s.cq.number(), sent(n, 0));
    assert_eq!(s.cq.poll_one().unwrap().unwrap().id, 77);
    s.model.complete(s.cq.number(), sent(n, 0));
    let e = s.cq.poll_one().unwrap_err().to_string();
    assert!(e.contains("completion of send WQE 0"), "twice: {e}");
}

#[test]
fn a_failed_request_says_which_check_failed() {
    let mut s = side(4);
    let n = s.qp.number();
    s.qp.post_send(&SendRequest::send(&[1u8]).id(5)).unwrap();
    let status = Status::RemAccessErr.number();
    let syndrome = Check::NakAccess.number() as u32;
    s.model.complete(
        s.cq.number(),
        Cqe {
            status,
            syndrome,
            ..sent(n, 0)
        },
    );
    let c = s.cq.poll_one().unwrap().unwrap();
    assert_eq!(
        (c.id, c.status, c.check),
        (5, Status::RemAccessErr, Some(Check::NakAccess))
    );
    let e = c.ok().unwrap_err().to_string();
    assert!(
        e.contains("request 5 failed: REM_ACCESS_ERR") && e.contains("NAK_ACCESS"),
        "{e}"
    );
}

#[test]
fn consumer_index_is_reported_before_the_queue_can_overflow() {
    let mut s = side(64);
    let n = s.qp.number();
    let before = s.model.state.lock().unwrap().doorbells.len();
    for i in 0..64 {
        s.qp.post_send(&SendRequest::send(&[1u8])).unwrap();
        s.model.complete(s.cq.number(), sent(n, i));
        s.cq.poll_one().unwrap().unwrap();
    }
    let state = s.model.state.lock().unwrap();
    let told: Vec<_> = state.doorbells[before..]
        .iter()
        .map(|(r, d)| (*r, d.index))
        .collect();
    assert_eq!(told, [16, 32, 48, 64].map(|i| (doorbell::CQ_CI, i)));
}

#[test]
fn completions_of_a_destroyed_queue_pair_are_not_taken_for_its_successors() {
    let s = side(4);
    let n = s.qp.number();
    let mut second = s.pd.qp(&s.cq, &s.cq).build().unwrap().init().unwrap();
    let peer = Endpoint {
        qpn: 7,
        psn: 9,
        mac: [2; 6],
        ipv4: [10, 0, 0, 2].into(),
    };
    let mut qp = s.qp;
    qp.post_send(&SendRequest::send(&[1u8]).id(1)).unwrap();
    let mr = s.pd.alloc_mr(64, Access::LOCAL_WRITE).unwrap();
    second
        .post_recv(&RecvRequest::new(&[mr.all()]).id(2))
        .unwrap();
    s.model.complete(s.cq.number(), sent(n, 0));
    let got = Cqe {
        opcode: CqeOpcode::Recv.number(),
        flags: cqe::flag::RECEIVE as u8,
        qpn: second.number(),
        ..Default::default()
    };
    s.model.complete(s.cq.number(), got);
    qp.destroy().unwrap();
    let again =
        s.pd.qp(&s.cq, &s.cq)
            .number(n)
            .build()
            .unwrap()
            .init()
            .unwrap();
    let mut again = again.connect(&Connection::to(peer)).unwrap();
    again.post_send(&SendRequest::send(&[1u8]).id(3)).unwrap();
    assert_eq!(s.cq.poll_one().unwrap().unwrap().id, 2);
    assert_eq!(s.cq.poll_one().unwrap(), None);
}

#[test]
fn everything_is_destroyed_in_an_order_the_device_takes_whatever_the_order_of_dropping() {
    let Side {
        model,
        ctx,
        pd,
        cq,
        qp,
    } = side(4);
    let mr = pd.alloc_mr(4096, Access::NONE).unwrap();
    drop(ctx);
    drop(cq);
    drop(pd);
    drop(mr);
    drop(qp);
    let s = model.state.lock().unwrap();
    let order: Vec<_> = s.commands.iter().map(|c| c.0).collect();
    use Command::*;
    assert!(
        order.ends_with(&[DestroyMr, DestroyQp, DestroyCq, DestroyEq]),
        "{order:?}"
    );
    drop(s);
    assert_eq!(model.memory.used(), 0, "all DMA memory is unmapped");
}

#[test]
fn memory_the_device_may_still_use_stays_mapped() {
    let s = side(4);
    let mr = s.pd.alloc_mr(4096, Access::NONE).unwrap();
    let used = s.model.memory.used();
    let number = Command::DestroyMr.number();
    s.model
        .state
        .lock()
        .unwrap()
        .refuse
        .insert(number, CmdError::Timeout.number());
    assert!(mr.destroy().is_err());
    assert_eq!(s.model.memory.used(), used);
}

#[test]
fn events_are_taken_in_order_and_unknown_ones_are_errors() {
    let s = side(4);
    assert_eq!(s.ctx.poll_event().unwrap(), None);
    for i in 0..600 {
        let syndrome = Check::Rkey.number() as u16;
        let event = Event::QpAccessError.number();
        s.model.event(Eqe {
            etype: event,
            number: i,
            syndrome,
            ..Default::default()
        });
        let e = s.ctx.poll_event().unwrap().unwrap();
        let want = DeviceEvent {
            event: Event::QpAccessError,
            number: i,
            check: Some(Check::Rkey),
            info: 0,
        };
        assert_eq!(e, want);
        assert_eq!(s.model.last_doorbell().1.index, i as u16 + 1);
    }
    s.model.event(Eqe {
        etype: 0xcc,
        ..Default::default()
    });
    assert!(matches!(s.ctx.poll_event(), Err(Error::Device { .. })));
    assert!(matches!(s.ctx.wait_event(1000), Err(Error::Timeout { .. })));
}

#[test]
fn connecting_gives_the_attributes_the_transitions_require() {
    let s = side(4);
    let state = s.model.state.lock().unwrap();
    let modifies: Vec<_> = state
        .commands
        .iter()
        .filter(|c| c.0 == Command::ModifyQp)
        .collect();
    let m: Vec<_> = modifies
        .iter()
        .map(|c| ModifyQp::read(&c.1).unwrap())
        .collect();
    let mut from = 0;
    for m in &m {
        let step = |t: &&rocenic_contract::cmd::Transition| {
            (t.from.number(), t.to.number()) == (from, m.new_state)
        };
        let t = rocenic_contract::cmd::TRANSITIONS
            .iter()
            .find(step)
            .expect("a legal step");
        let given = m.attr_mask as u64 & !rocenic_contract::cmd::attr::STATE;
        assert_eq!(
            given & t.required_rc,
            t.required_rc,
            "{from} to {}",
            m.new_state
        );
        assert_eq!(
            given & !(t.required_rc | t.optional),
            0,
            "{from} to {}",
            m.new_state
        );
        from = m.new_state;
    }
    assert_eq!((m[1].dest_qpn, m[1].rq_psn), (7, 9));
    assert_eq!(
        (m[1].dst_mac, m[1].dst_ip),
        (0x0200_0000_0002, 0xffff_0a00_0002)
    );
}

#[test]
fn keys_of_a_region_change_when_its_number_is_used_again() {
    let s = side(4);
    let make = || s.pd.mr(4096, Access::NONE).number(5).register().unwrap();
    let first = make().rkey();
    let second = make().rkey();
    assert_ne!(first, second);
    assert_eq!(first >> 8, second >> 8);
}

#[test]
fn what_is_not_mapped_is_refused_like_an_iommu_does() {
    let m = RegisterModel::new();
    let t = m.transport();
    let a = t.alloc_dma(5000).unwrap();
    let b = t.alloc_dma(10).unwrap();
    let end = a.iova() + a.len() as u64;
    assert!(b.iova() > end, "a gap between pieces");
    assert!(m.memory.write(end - 4, &[0; 8]).is_err());
    assert!(m.memory.read(end, &mut [0]).is_err());
    m.memory.write(a.iova() + 1, &[9; 7]).unwrap();
    assert_eq!(a.to_vec(0, 9), [0, 9, 9, 9, 9, 9, 9, 9, 0]);
    let iova = a.iova();
    drop(a);
    assert!(
        m.memory.read(iova, &mut [0]).is_err(),
        "unmapped when dropped"
    );
}

#[test]
fn memory_of_the_program_is_what_the_device_reaches_and_is_given_back() {
    let s = side(4);
    let used = s.model.memory.used();
    let bytes: Vec<u8> = (0..10_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let memory = UserMemory::from_vec(bytes.clone());
    let address = memory.address();
    let mr = s.pd.register(memory, Access::LOCAL_WRITE).unwrap();
    let (command, input) = s
        .model
        .state
        .lock()
        .unwrap()
        .commands
        .last()
        .cloned()
        .unwrap();
    assert_eq!(command, Command::CreateMr);
    let made = CreateMr::read(&input).unwrap();
    assert_eq!((made.va, made.length), (address, 10_000));
    assert_eq!(
        made.iova % 4096,
        address % 4096,
        "it begins where it does here"
    );
    let mut there = vec![0; 10_000];
    s.model.memory.read(made.iova, &mut there).unwrap();
    assert!(there == bytes);
    s.model.memory.write(made.iova + 9_997, b"end").unwrap();
    assert_eq!(mr.to_vec(9_997..10_000), b"end");
    drop(mr);
    assert_eq!(s.model.memory.used(), used);
    assert!(s.model.memory.read(made.iova, &mut there).is_err());
}
