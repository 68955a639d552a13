//! What stands around the requester: regions, host memory, the wire, completions.
use super::*;
use syndrome::kind::AethKind;
use syndrome::nak::NakCode;

impl Bench {
    /// The region table takes a key away in 12 cycles; the command processor drains.
    pub(super) fn invalidates(&mut self, now: u64) {
        while let Some(v) = self.inv.try_recv() {
            assert_eq!(v.field("local"), 1, "a request of the host's own");
            let list = match v.field("revive") {
                0 => &mut self.invs,
                _ => &mut self.regs,
            };
            list.push((v.cycle, v.field("key"), v.field("pd")));
            self.inv_due = now + 12;
        }
        self.dut.set("inv_done", u64::from(self.inv_due == now));
        self.dut.set("inv_ok", u64::from(self.inv_good));
        let begins = self.drain_due == 0 && self.dut.get("pass_valid") == 1;
        let ends = self.drain_due == now;
        self.dut.set("pass_ready", u64::from(begins));
        self.dut.set("passed", u64::from(ends));
        if begins {
            self.drain_due = now + self.random.within(self.drain.0, self.drain.1);
        } else if ends {
            self.drain_due = 0;
            self.passed.push(now);
        }
    }

    // the host's memory
    pub(super) fn read(&mut self, tag: u64, iova: u64, bytes: u64) {
        self.read_requests += 1;
        assert!(
            self.reads.iter().all(|r| r.tag != tag),
            "tag {tag} is used twice"
        );
        assert!(
            bytes > 0 && bytes <= 4096 && bytes.is_multiple_of(64),
            "{bytes} bytes"
        );
        let qpn = (iova - RINGS) / RING_BYTES;
        let q = &self.qps[&qpn];
        let at = (iova - q.cfg.sq_base.to_u64()) as usize;
        assert!(
            at.is_multiple_of(64) && at + bytes as usize <= 64 * q.ring.len(),
            "read outside of the ring"
        );
        let beats = q.ring[at / 64..][..bytes as usize / 64]
            .iter()
            .map(bits512)
            .collect();
        let due = self.now() + self.random.within(self.latency.0, self.latency.1);
        self.reads.push(Read {
            due,
            tag,
            iova,
            beats,
            fail: false,
        });
    }
    pub(super) fn lookup(&mut self, v: &Value<MrReq>) {
        let (key, at, len, pd) = (v.field("key"), v.field("va"), v.field("len"), v.field("pd"));
        self.looked_up.push(key);
        let qpn = key >> 8;
        let ok = key & 0xff == 0
            && pd == (qpn ^ 0x155)
            && at >= va(qpn)
            && u128::from(at) + u128::from(len) <= u128::from(va(qpn)) + u128::from(REGION);
        let to = iova(qpn).wrapping_add(at.wrapping_sub(va(qpn)));
        // the table takes three cycles
        let rsp = MrRsp {
            ok,
            iova: to.into(),
        };
        self.keys.push_back((self.now() + 2, rsp));
    }

    // the peer
    /// Joins the pieces of a packet.
    pub(super) fn piece(&mut self, p: Packet, more: bool, total: u64) {
        let joined = match self.part.take() {
            None => p,
            Some(mut first) => {
                let same = |p: &Packet| (p.qpn, p.epoch, p.idx, p.opcode, p.psn, p.inline);
                assert_eq!(same(&first), same(&p), "a piece of another packet");
                assert!(first.len > 0 && p.len > 0, "a piece without bytes: {p:?}");
                first.pieces.extend(&p.pieces);
                first.len += p.len;
                first
            }
        };
        if more {
            self.part = Some(joined);
        } else {
            if joined.pieces.len() > 1 {
                assert_eq!(total, joined.len, "bytes of the packet {joined:?}");
            }
            self.packet(joined);
        }
    }
    pub(super) fn packet(&mut self, p: Packet) {
        let Some(q) = self.qps.get_mut(&p.qpn) else {
            panic!("packet of a QP that does not exist: {p:?}");
        };
        if self.epochs.get(&p.qpn) != Some(&p.epoch) {
            self.stale += 1;
            return;
        }
        let i = q.check(&p);
        let m = &q.posted[i];
        let reads = is_read(&m.work.wqe);
        // PSNs it stands for
        let takes = if reads {
            m.packets - (p.psn + PSN - m.first_psn) % PSN
        } else {
            1
        };
        q.sent += 1;
        if self.keep_log {
            self.log.push(p.clone());
        }
        let fate = (self.fate)(&p, &mut self.random);
        if fate == Fate::Lose {
            return;
        }
        let ahead = (p.psn + PSN - q.epsn) % PSN;
        let ack = syndrome::ACK;
        let answer = if ahead == 0 {
            match fate {
                Fate::Rnr(code) => {
                    q.quiet = true;
                    Some((p.psn, syndrome::rnr_syndrome(code)))
                }
                Fate::Nak(code) => {
                    q.quiet = true;
                    Some((p.psn, syndrome::syndrome(AethKind::Nak, code)))
                }
                _ => {
                    q.epsn = (q.epsn + takes) % PSN;
                    (q.nak_sent, q.quiet) = (false, false);
                    let m = &q.posted[i];
                    if (m.first_psn + m.packets) % PSN == q.epsn {
                        q.messages = i as u64 + 1 + u64::from(m.work.more.is_some());
                    }
                    p.ack_req.then_some((p.psn, ack))
                }
            }
        } else if ahead < HALF {
            let nak = !q.nak_sent && !q.quiet;
            q.nak_sent |= nak;
            nak.then_some((q.epsn, syndrome::nak_syndrome(NakCode::Sequence)))
        } else {
            p.ack_req.then_some(((q.epsn + PSN - 1) % PSN, ack))
        };
        if reads && (ahead == 0 || ahead >= HALF) {
            for k in 0..takes {
                let d = self.random.within(self.delay.0, self.delay.1);
                self.say(d, p.qpn, (p.psn + k) % PSN, u16::from(ack) | OWN);
            }
            return;
        }
        if let Some((psn, s)) = answer
            && fate != Fate::Mute
        {
            let d = self.random.within(self.delay.0, self.delay.1);
            // of UC the transmit side says that it has left
            let own = if self.qps[&p.qpn].uc() { OWN } else { 0 };
            self.say(d, p.qpn, psn, u16::from(s) | own);
        }
    }
    pub(super) fn completion(&mut self, v: &Value<CqeReq>) {
        let q = self.qps.get_mut(&v.field("qpn")).unwrap();
        let c = Cqe {
            cycle: v.cycle,
            idx: v.field("wqe_idx"),
            status: v.field("status"),
            opcode: v.field("opcode"),
            cqn: v.field("cqn"),
        };
        assert_eq!(
            c.cqn,
            q.cfg.send_cqn.to_u64(),
            "CQ of QP {}",
            v.field("qpn")
        );
        q.cqes.push(c);
    }
}
