//! Time of `post_send` and `poll` a request (`rounds`), beside that of an empty loop. `rocenic bench` measures the same.
#[allow(dead_code)]
#[path = "../tests/common/mod.rs"]
mod common;
mod rounds;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rounds::{BATCHES, Rounds, SIZES};

fn post_poll(c: &mut Criterion) {
    let mut rounds = Rounds::new();
    let mut group = c.benchmark_group("post_send + poll");
    // an iteration is a request, whatever the batch
    group.throughput(Throughput::Elements(1));
    for bytes in SIZES {
        for batch in BATCHES {
            let name = format!("{bytes} B, batch");
            group.bench_function(BenchmarkId::new(&name, batch), |b| {
                b.iter_custom(|n| rounds.time(bytes, batch, n).expect("requests are taken"));
            });
            let name = format!("empty loop, {bytes} B, batch");
            group.bench_function(BenchmarkId::new(&name, batch), |b| {
                b.iter_custom(|n| rounds.empty(bytes, batch, n).expect("a piece"));
            });
        }
    }
    group.finish();
}
criterion_group!(benches, post_poll);
criterion_main!(benches);
