//! Frames and runs of bytes as the beats of an internal stream, and back.
use rocenic_hdl::types::Beat;
use rocenic_testbench::Value;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource};
use rocenic_testbench::vectors::to_hex;
use rust_hdl_core::prelude::*;

/// Bytes of a beat.
pub const BEAT: usize = 64;

/// Up to 64 bytes, byte 0 lowest, zeros behind.
pub fn data(bytes: &[u8]) -> Bits<512> {
    bytes
        .chunks(8)
        .enumerate()
        .fold(Bits::default(), |d, (k, c)| {
            let word = c.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
            d | (Bits::<512>::from(word) << (64 * k) as u64)
        })
}
/// The beats of a frame.
pub fn beats(frame: &[u8]) -> Vec<Beat> {
    let n = frame.len().div_ceil(BEAT);
    let beat = |(k, c): (usize, &[u8])| Beat {
        data: data(c),
        bytes: bits(c.len() as u64),
        last: k + 1 == n,
        err: false,
    };
    frame.chunks(BEAT).enumerate().map(beat).collect()
}
/// A beat as the words of its port; what is behind `bytes` stays zero.
fn words(bytes: &[u8], count: usize, last: bool) -> Vec<u64> {
    let mut w = vec![0; BEAT / 8 + 1];
    for (i, b) in bytes.iter().enumerate() {
        w[i / 8] |= u64::from(*b) << (i % 8 * 8);
    }
    w[BEAT / 8] = count as u64 | u64::from(last) << 7;
    w
}
/// Queues a frame.
pub fn send_frame(to: &ChannelSource<Beat>, frame: &[u8]) {
    send_run(to, frame, frame.len());
}
/// Queues a run of `count` bytes; there may be rubbish behind it in the last beat.
pub fn send_run(to: &ChannelSource<Beat>, run: &[u8], count: usize) {
    let n = count.div_ceil(BEAT);
    for (k, c) in run.chunks(BEAT).take(n).enumerate() {
        to.send_words(words(c, (count - k * BEAT).min(BEAT), k + 1 == n));
    }
}
#[test]
fn words_of_a_beat_are_laid_out_as_the_struct() {
    let want = Beat {
        data: Bits::<512>::from(0x0102_0304_u64) << 480_u64,
        bytes: bits(63),
        last: true,
        err: false,
    };
    let mut bytes = [0; BEAT];
    bytes[60..].copy_from_slice(&[4, 3, 2, 1]);
    assert_eq!(
        words(&bytes, 63, true),
        rocenic_testbench::value::pack(&want)
    );
}
/// The valid bytes of a beat.
pub fn bytes_of(b: &Value<Beat>) -> Vec<u8> {
    let mut v = b.bytes();
    v.truncate(b.field("bytes") as usize);
    v
}
/// A received frame and the cycles of its first and last beat.
pub struct Frame {
    pub bytes: Vec<u8>,
    pub first: u64,
    pub last: u64,
    pub beats: u64,
}
/// The next frame; every beat but the last one is full.
pub async fn recv_frame(sink: &ChannelSink<Beat>) -> Frame {
    let mut f: Option<Frame> = None;
    loop {
        let b = sink.recv().await;
        let f = f.get_or_insert(Frame {
            bytes: vec![],
            first: b.cycle,
            last: 0,
            beats: 0,
        });
        f.bytes.extend(bytes_of(&b));
        f.beats += 1;
        f.last = b.cycle;
        assert_eq!(
            b.field("err"),
            0,
            "beat {} of a frame is marked bad",
            f.beats
        );
        if b.field("last") == 1 {
            return Frame {
                bytes: std::mem::take(&mut f.bytes),
                ..*f
            };
        }
        assert_eq!(
            b.field("bytes"),
            BEAT as u64,
            "beat {} of a frame is not full",
            f.beats
        );
    }
}
/// # Panics
/// Shows the first byte that differs.
#[track_caller]
pub fn same(got: &[u8], want: &[u8], what: &str) {
    let at = got
        .iter()
        .zip(want)
        .position(|(g, w)| g != w)
        .unwrap_or(got.len().min(want.len()));
    assert!(
        got == want,
        "{what}: first difference at byte {at} (lengths {} and {})\n got {}\nwant {}",
        got.len(),
        want.len(),
        to_hex(got),
        to_hex(want)
    );
}
