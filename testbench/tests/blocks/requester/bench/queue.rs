//! What a queue pair may send next: its packets, checked one by one.
use super::*;

impl Qp {
    pub fn uc(&self) -> bool {
        self.cfg.transport.to_u64() == cmd::transport::UC
    }
    pub fn signaled(&self, i: usize) -> bool {
        let w = &self.posted[i].work;
        // of two blocks the second completes
        w.more.is_none() && (self.cfg.sq_sig_all || w.wqe.flags & wqe::flag::SIGNALED as u8 != 0)
    }
    /// A packet is exactly the one its PSN stands for.
    #[track_caller]
    pub(super) fn check(&mut self, p: &Packet) -> usize {
        let i = self
            .posted
            .iter()
            .rposition(|m| m.work.good && (p.psn + PSN - m.first_psn) % PSN < m.packets);
        let i = i.unwrap_or_else(|| panic!("PSN of no message: {p:?}"));
        let m = &self.posted[i];
        let w = &m.work.wqe;
        let k = (p.psn + PSN - m.first_psn) % PSN;
        if is_read(w) {
            self.check_read(p, i, k);
            return i;
        }
        let (first, last) = (k == 0, k == m.packets - 1);
        let write = is_write(w);
        use opcode::*;
        use wqe::opcode::WqeOpcode::{self as Op, SendImm, SendInv, WriteImm};
        let op = Op::from_number(w.opcode).expect("an opcode");
        let code = match (write, first, last) {
            (_, true, true) if op == SendImm => RC_SEND_ONLY_IMM,
            (_, false, true) if op == SendImm => RC_SEND_LAST_IMM,
            (_, true, true) if op == SendInv => RC_SEND_ONLY_INV,
            (_, false, true) if op == SendInv => RC_SEND_LAST_INV,
            (_, true, true) if op == WriteImm => RC_WRITE_ONLY_IMM,
            (_, false, true) if op == WriteImm => RC_WRITE_LAST_IMM,
            (true, true, true) => RC_WRITE_ONLY,
            (true, true, false) => RC_WRITE_FIRST,
            (true, false, false) => RC_WRITE_MIDDLE,
            (true, false, true) => RC_WRITE_LAST,
            (false, true, true) => RC_SEND_ONLY,
            (false, true, false) => RC_SEND_FIRST,
            (false, false, false) => RC_SEND_MIDDLE,
            (false, false, true) => RC_SEND_LAST,
        };
        let code = code ^ if self.uc() { UC_SEND_FIRST } else { 0 };
        let total = u64::from(w.length);
        let len = if last {
            total - k * self.pmtu
        } else {
            self.pmtu
        };
        let at = format!("WQE {i}, packet {k} of {}: {p:?}", m.packets);
        assert_eq!(p.opcode, code, "opcode, {at}");
        assert_eq!(p.idx, i as u64 & 0xffff, "index, {at}");
        assert_eq!(p.len, len, "length, {at}");
        if last && matches!(op, SendImm | SendInv | WriteImm) {
            assert_eq!(p.imm, u64::from(w.imm_or_invkey), "immediate, {at}");
        }
        if write && first {
            assert_eq!(
                (p.va, p.rkey, p.dma_len),
                (w.remote_va, w.rkey.into(), total),
                "RETH, {at}"
            );
        }
        let solicited = last && w.flags & wqe::flag::SOLICITED as u8 != 0;
        assert_eq!(p.solicited, solicited, "solicited, {at}");
        match &m.work.inline {
            Some(d) => assert!(p.inline && p.data[..d.len()] == d[..], "inline data, {at}"),
            None if len > 0 => {
                let n = u64::from(w.qpn);
                let (from, to) = (k * self.pmtu, k * self.pmtu + len);
                let mut want = vec![];
                let mut start = 0;
                for (at, len) in m.work.pieces() {
                    let (a, b) = (from.max(start), to.min(start + len));
                    if a < b {
                        let at = iova(n).wrapping_add(at.wrapping_sub(va(n)));
                        want.push((at + a - start, b - a));
                    }
                    start += len;
                }
                assert!(!p.inline, "{at}");
                assert_eq!(p.pieces, want, "payload, {at}");
            }
            None => {}
        }
        let outstanding = (p.psn + PSN - self.acked) % PSN;
        if last || k % 16 == 15 {
            assert!(p.ack_req, "no AckReq, {at}");
        } else if p.ack_req {
            assert!(
                (900..HALF).contains(&outstanding),
                "AckReq with {outstanding} outstanding, {at}"
            );
        }
        assert!(
            !(1024..HALF).contains(&outstanding),
            "{outstanding} packets outstanding, {at}"
        );
        if w.flags & wqe::flag::FENCE as u8 != 0 && first {
            assert_eq!(self.reads_out(p.psn), 0, "the fence does not hold, {at}");
        }
        self.is_next(p, 1);
        i
    }
    pub(super) fn is_next(&mut self, p: &Packet, takes: u64) {
        if let Some((epoch, next)) = self.last_sent
            && epoch == p.epoch
        {
            assert_eq!(p.psn, next, "not the next PSN, {p:?}");
        }
        self.last_sent = Some((p.epoch, (p.psn + takes) % PSN));
    }
    /// READs and atomics before `psn` that the requester cannot know to be answered.
    pub(super) fn reads_out(&self, psn: u64) -> u64 {
        let out = |m: &&Posted| {
            is_read(&m.work.wqe)
                && (psn + PSN - m.first_psn - 1) % PSN < HALF
                && (m.first_psn + m.packets - 1 + PSN - self.acked) % PSN < HALF
        };
        self.posted.iter().filter(out).count() as u64
    }
    /// The request of a READ or atomic, from packet `k` of the response on.
    #[track_caller]
    pub(super) fn check_read(&mut self, p: &Packet, i: usize, k: u64) {
        let m = &self.posted[i];
        let w = m.work.wqe;
        let at = format!("WQE {i}, from packet {k} of {}: {p:?}", m.packets);
        let code = match w.opcode {
            o if o == wqe::opcode::ATOMIC_CAS as u8 => opcode::RC_CMP_SWAP,
            o if o == wqe::opcode::ATOMIC_FAA as u8 => opcode::RC_FETCH_ADD,
            _ => opcode::RC_READ_REQ,
        };
        assert_eq!(p.opcode, code, "opcode, {at}");
        let skip = k * self.pmtu;
        let va = w.remote_va.wrapping_add(skip);
        assert_eq!((p.va, p.rkey), (va, w.rkey.into()), "RETH, {at}");
        if is_atomic(&w) {
            let b = w.to_bytes();
            let turned = |r: std::ops::Range<usize>| b[r].iter().rev().copied().collect::<Vec<_>>();
            let operands = [turned(48..56), turned(56..64)].concat();
            assert!(p.inline && p.len == 16, "operands, {at}");
            assert_eq!(p.data[..16], operands[..], "operands, {at}");
        } else {
            let left = u64::from(w.length) - skip;
            assert_eq!((p.len, p.dma_len), (0, left), "lengths, {at}");
        }
        assert!(!p.ack_req && !p.solicited, "bits of the BTH, {at}");
        let out = self.reads_out(p.psn);
        assert!(
            out < self.cfg.max_rd_atomic.to_u64(),
            "{out} outstanding before it, {at}"
        );
        if w.flags & wqe::flag::FENCE as u8 != 0 && k == 0 {
            assert_eq!(out, 0, "the fence does not hold, {at}");
        }
        let takes = m.packets - k;
        self.is_next(p, takes);
    }
}
