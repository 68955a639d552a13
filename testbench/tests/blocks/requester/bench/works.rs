//! WQEs: made, posted, announced and pushed.
use super::*;

impl Bench {
    /// A good message. `how`: WRITE or SEND.
    pub fn work(&mut self, qpn: u64, how: wqe::opcode::WqeOpcode, len: u64, flags: u64) -> Work {
        let r = &mut self.random;
        let inline = (flags & wqe::flag::INLINE != 0).then(|| r.bytes(len as usize));
        let at = va(qpn) + r.below(REGION - len + 1);
        let local = is_local(how.number());
        let sge = inline.is_none() && !local && (len > 0 || r.percent(50));
        let w = wqe::Wqe {
            opcode: how.number(),
            flags: flags as u8,
            qpn: qpn as u32,
            num_sge: u8::from(sge),
            length: len as u32,
            imm_or_invkey: r.next_u64() as u32,
            remote_va: r.next_u64(),
            rkey: r.next_u64() as u32,
            sge0_va: if sge { at } else { 0 },
            sge0_length: if sge { len as u32 } else { 0 },
            sge0_lkey: if sge { (qpn << 8) as u32 } else { 0 },
            ..Default::default()
        };
        let w = if is_atomic(&w) {
            // the operands
            wqe::Wqe {
                sge1_va: r.next_u64(),
                sge1_length: r.next_u64() as u32,
                sge1_lkey: r.next_u64() as u32,
                ..w
            }
        } else {
            w
        };
        Work {
            wqe: w,
            more: None,
            inline,
            good: true,
        }
    }
    /// A good message of pieces of these lengths, anywhere.
    pub fn gather(
        &mut self,
        qpn: u64,
        how: wqe::opcode::WqeOpcode,
        lens: &[u64],
        flags: u64,
    ) -> Work {
        let mut w = self.work(qpn, how, 0, flags);
        let mut all = [(0, 0, 0); wqe::MAX_SGE];
        for (to, len) in all.iter_mut().zip(lens) {
            let at = va(qpn) + self.random.below(REGION - len + 1);
            // the key of a piece without bytes does not count
            let key = if *len == 0 { 0xbad } else { qpn << 8 };
            *to = (at, *len as u32, key as u32);
        }
        w.wqe.num_sge = lens.len() as u8;
        w.wqe.length = lens.iter().sum::<u64>() as u32;
        (w.wqe.sge0_va, w.wqe.sge0_length, w.wqe.sge0_lkey) = all[0];
        (w.wqe.sge1_va, w.wqe.sge1_length, w.wqe.sge1_lkey) = all[1];
        if lens.len() > wqe::BLOCK_SGES {
            let mut b = wqe::Wqe {
                opcode: wqe::opcode::MORE_SGE as u8,
                qpn: qpn as u32,
                ..Default::default()
            };
            (b.sge0_va, b.sge0_length, b.sge0_lkey) = all[2];
            (b.sge1_va, b.sge1_length, b.sge1_lkey) = all[3];
            w.more = Some(b);
        }
        w
    }
    /// Writes the WQE into the ring; its index.
    pub fn post(&mut self, qpn: u64, mut work: Work) -> u64 {
        let q = self.qps.get_mut(&qpn).unwrap();
        let idx = q.posted.len() as u64;
        if work.wqe.index == 0 {
            work.wqe.index = idx as u16;
        }
        let mut b = work.wqe.to_bytes();
        if let Some(d) = &work.inline {
            b[32..32 + d.len()].copy_from_slice(d);
        }
        let n = q.ring.len();
        q.ring[idx as usize % n] = b;
        if let Some(m) = &mut work.more {
            if m.index == 0 {
                m.index = (idx + 1) as u16;
            }
            q.ring[(idx as usize + 1) % n] = m.to_bytes();
        }
        let local = is_local(work.wqe.opcode);
        let packets = match u64::from(work.wqe.length).div_ceil(q.pmtu) {
            _ if local => 0,
            n => n.max(1),
        };
        let p = Posted {
            work,
            first_psn: q.next_psn,
            packets,
        };
        if p.work.good {
            q.next_psn = (q.next_psn + packets) % PSN;
        }
        let two = p.work.more.is_some();
        q.posted.push(p.clone());
        q.due += usize::from(q.signaled(idx as usize));
        if two {
            let mut second = p;
            second.packets = 0;
            second.work.good = false;
            second.work.more = None;
            q.posted.push(second);
            q.due += usize::from(q.signaled(idx as usize + 1));
        }
        idx
    }
    pub fn bell(&mut self, qpn: u64) {
        let pi = self.qps[&qpn].posted.len() as u64 & 0xffff;
        self.bell_value(qpn, pi);
    }
    pub fn bell_value(&mut self, qpn: u64, pi: u64) {
        self.bell.send(&RingBell {
            qpn: qpn.into(),
            pi: pi.into(),
        });
    }
    pub fn push(&mut self, qpn: u64, idx: u64, whole: bool, page: u64) {
        let q = &self.qps[&qpn];
        let wqe = bits512(&q.ring[idx as usize % q.ring.len()]);
        self.push.send(&PushBeat {
            page: page.into(),
            whole,
            wqe,
        });
    }
    /// Posts by push.
    pub fn push_work(&mut self, qpn: u64, work: Work) {
        let idx = self.post(qpn, work);
        let page = self.qps[&qpn].cfg.db_page.to_u64();
        for k in idx..self.qps[&qpn].posted.len() as u64 {
            self.push(qpn, k, true, page);
        }
    }
}
