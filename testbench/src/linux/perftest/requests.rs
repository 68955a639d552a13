//! Our requests to the tool, which is the server of the test.
use super::{
    ATOMIC, BUFFER, CACHE_LINE, FIGURE_BYTES, KEYS_BEFORE, Operation, READS, Side, Test, VERSION,
    holds, memory,
};
use crate::linux::host::Host;
use crate::linux::talk::{DONE, Key, PERFTEST_BYTES, Talk};
use Operation::*;
use anyhow::{Result, bail, ensure};
use rocenic_driver::{Qp, Rts, SendRequest};
use std::ops::Range;

/// Figures that all but the SEND test exchange.
const FIGURES: usize = 5;
/// Requests posted and not completed.
const WINDOW: usize = 32;

/// We are the client: our NIC's requests go to the guest.
pub fn to_guest(h: &mut Host, test: Test) -> Result<()> {
    let mut talk = h.call(&test.command())?;
    let (side, qp, key) = Side::new(h, test)?;
    let [buffer, line] = [BUFFER, CACHE_LINE].map(|n| (n as u32).to_be_bytes());
    for say in [VERSION, &buffer, &line, &test.pmtu_word()] {
        talk.say(say)?;
        h.until("its version, buffers and PMTU", || talk.take(say.len()))?;
    }
    let tell_key = |h: &mut Host, talk: &mut Talk| -> Result<Key> {
        talk.say(&key.perftest())?;
        Key::from_perftest(&h.until("its key", || talk.take(PERFTEST_BYTES))?)
    };
    let tool = tell_key(h, &mut talk)?;
    let mut qp = h.connect(qp, &tool, test.pmtu, READS)?;
    for _ in 1..KEYS_BEFORE {
        tell_key(h, &mut talk)?;
    }
    match test.operation {
        Send => send(h, &side, &mut qp, &tool)?,
        Write => write(h, &side, &mut qp, &tool)?,
        Read => read(h, &side, &mut qp, &tool)?,
        FetchAdd | CompareSwap => atomics(h, &side, &mut qp, &tool)?,
    }
    if test.operation != Send {
        for _ in 0..FIGURES {
            talk.say(&[0; FIGURE_BYTES])?;
            h.until("a figure", || talk.take(FIGURE_BYTES))?;
        }
    }
    tell_key(h, &mut talk)?;
    talk.say(DONE)?;
    h.finish()?;
    Ok(())
}
/// Posts requests `0..count` of a test and waits for their completions, in order.
fn all(
    h: &mut Host,
    side: &Side,
    mut post: impl FnMut(&mut Host, usize) -> Result<()>,
) -> Result<()> {
    let count = side.test.count;
    for i in 0..count + WINDOW {
        if i < count {
            post(h, i)?;
        }
        if let Some(done) = i.checked_sub(WINDOW)
            && done < count
        {
            let w = h.completion(&side.send_cq)?;
            ensure!(w.id == done as u64, "request {done}: {w:?}");
        }
    }
    Ok(())
}
fn send(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let data = h.bytes(side.test.size * side.test.count);
    side.mr.write(0, &data);
    all(h, side, |_, i| {
        let piece = [side.mr.slice(side.place(i))?];
        Ok(qp.post_send(&SendRequest::send(&piece).id(i as u64))?)
    })?;
    // the tool receives into one place, or goes round its buffer
    let theirs = memory(h, side.test, tool)?;
    let last = &data[side.place(side.test.count - 1)];
    ensure!(
        holds(&theirs, last),
        "the tool's buffer does not hold the last message"
    );
    Ok(())
}
/// A piece of a region of `size` bytes: of any alignment, sometimes of no length. The first is all of it.
fn piece(h: &mut Host, i: usize, size: usize) -> Range<usize> {
    if i == 0 {
        return 0..size;
    }
    let from = h.random.below(size as u64) as usize;
    let len = h.random.below((size - from) as u64 + 1) as usize;
    from..from + len
}
fn write(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let size = side.test.size;
    let data = h.bytes(size * side.test.count);
    side.mr.write(0, &data);
    let mut expected = vec![0; size];
    all(h, side, |h, i| {
        let to = piece(h, i, size);
        let from = i * size..i * size + to.len();
        let local = [side.mr.slice(from.clone())?];
        let remote = tool
            .memory(size as u32)
            .slice(to.start as u32..to.end as u32)?;
        qp.post_send(&SendRequest::write(&local, remote).id(i as u64))?;
        expected[to].copy_from_slice(&data[from]);
        Ok(())
    })?;
    let theirs = h.tool_memory(side.test.tool(), tool.va, size)?;
    ensure!(
        theirs == expected,
        "the tool's memory is not what was written to it"
    );
    Ok(())
}
fn read(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let size = side.test.size;
    let mut pieces = vec![];
    all(h, side, |h, i| {
        let from = piece(h, i, size);
        let local = [side.mr.slice(i * size..i * size + from.len())?];
        let remote = tool
            .memory(size as u32)
            .slice(from.start as u32..from.end as u32)?;
        qp.post_send(&SendRequest::read(&local, remote).id(i as u64))?;
        pieces.push(from);
        Ok(())
    })?;
    let theirs = h.tool_memory(side.test.tool(), tool.va, size)?;
    ensure!(
        theirs.iter().any(|b| *b != theirs[0]),
        "the tool's memory is nothing but {:#x}",
        theirs[0]
    );
    for (i, p) in pieces.into_iter().enumerate() {
        let got = side.mr.to_vec(i * size..i * size + p.len());
        ensure!(got == theirs[p.clone()], "READ {i} of {p:?} differs");
    }
    Ok(())
}
fn atomics(h: &mut Host, side: &Side, qp: &mut Qp<Rts>, tool: &Key) -> Result<()> {
    let value =
        |bytes: Vec<u8>| -> Result<u64> { Ok(u64::from_le_bytes(bytes.as_slice().try_into()?)) };
    let mut now = value(h.tool_memory(side.test.tool(), tool.va, ATOMIC)?)?;
    let remote = tool.memory(ATOMIC as u32);
    let mut old = vec![];
    all(h, side, |h, i| {
        let place = [side.mr.slice(side.place(i))?];
        let operand = h.random.next_u64();
        old.push(now);
        let request = match side.test.operation {
            FetchAdd => {
                now = now.wrapping_add(operand);
                SendRequest::fetch_add(&place, remote, operand)
            }
            CompareSwap if i % 2 == 0 => {
                let compare = now;
                now = operand;
                SendRequest::compare_swap(&place, remote, compare, operand)
            }
            // does not match
            CompareSwap => SendRequest::compare_swap(&place, remote, !now, operand),
            other => bail!("{other:?} is no atomic"),
        };
        Ok(qp.post_send(&request.id(i as u64))?)
    })?;
    for (i, expected) in old.into_iter().enumerate() {
        let got = value(side.mr.to_vec(side.place(i)))?;
        ensure!(
            got == expected,
            "atomic {i} returned {got:#x}, not {expected:#x}"
        );
    }
    let theirs = value(h.tool_memory(side.test.tool(), tool.va, ATOMIC)?)?;
    ensure!(
        theirs == now,
        "the tool's memory holds {theirs:#x}, not {now:#x}"
    );
    Ok(())
}
