//! What may happen at the same time: every order of steps, by a model checker (loom), and plain threads.
#[allow(dead_code)]
mod common;
/// The driver's own file, with the model checker's atomics.
#[allow(dead_code)]
#[path = "../src/indices.rs"]
mod indices;
mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use common::{sent, side};
use indices::Indices;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rocenic_driver::*;

/// Posts from one thread, completes from another one: no number is lost, none comes twice, and a slot is never written
/// while its entry is outstanding.
#[test]
fn posting_and_retiring_at_the_same_time_never_mix_up_entries() {
    const SIZE: usize = 2;
    const POSTS: u64 = 3;
    loom::model(|| {
        let q = Arc::new(Indices::new(SIZE as u32));
        // the ring, and the doorbell with which the device learns of entries
        let ring: Arc<[AtomicU64; SIZE]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let bell = Arc::new(AtomicU32::new(0));
        let poster = {
            let (q, ring, bell) = (q.clone(), ring.clone(), bell.clone());
            loom::thread::spawn(move || {
                let mut posted = 0;
                // a bounded number of looks keeps the model small
                for _ in 0..POSTS + 1 {
                    if posted < POSTS && q.used() < SIZE as u32 {
                        posted += 1;
                        let next =
                            q.put(posted, |slot| ring[slot].store(posted, Ordering::Relaxed));
                        bell.store(next as u32, Ordering::Release);
                    } else {
                        loom::thread::yield_now();
                    }
                }
                posted
            })
        };
        let mut done = 0u16;
        for _ in 0..2 {
            if u32::from(done) < bell.load(Ordering::Acquire) {
                // the device completes what it was told of
                let entry = ring[q.slot(done)].load(Ordering::Relaxed);
                let id = q.retire(done).expect("it is outstanding");
                assert_eq!((id, entry), (u64::from(done) + 1, u64::from(done) + 1));
                done += 1;
            } else {
                loom::thread::yield_now();
            }
        }
        let posted = poster.join().expect("the poster");
        assert_eq!(u64::from(q.next()), posted);
        assert_eq!(u64::from(q.used()), posted - u64::from(done));
        assert_eq!(q.retire(posted as u16), None, "nothing there was posted");
    });
}

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn what_the_documentation_says_of_threads_holds_for_the_types() {
    is_send_and_sync::<Context>();
    is_send_and_sync::<Pd>();
    is_send_and_sync::<Cq>();
    is_send_and_sync::<Mr>();
    is_send_and_sync::<Qp<Rts>>();
}

/// Threads that post, each on its own queue pair, and threads that poll one queue: every request completes once.
#[test]
fn queue_pairs_post_and_a_queue_is_polled_from_several_threads() {
    const POSTS: u64 = 500;
    let s = side(8);
    let more: Vec<Qp<Rts>> = (0..3)
        .map(|n| {
            let to = Endpoint {
                qpn: 9,
                psn: n,
                mac: [2; 6],
                ipv4: [10, 0, 0, 2].into(),
            };
            let qp = s.pd.qp(&s.cq, &s.cq).send_depth(8).build();
            let qp = qp.and_then(Qp::init).expect("a queue pair");
            qp.connect(&Connection::to(to)).expect("connected")
        })
        .collect();
    let all = std::sync::Mutex::new(vec![]);
    let posting = std::sync::atomic::AtomicUsize::new(more.len());
    std::thread::scope(|scope| {
        for mut qp in more {
            let (s, posting) = (&s, &posting);
            scope.spawn(move || {
                for n in 0..POSTS {
                    while qp.send_room() == 0 {
                        std::thread::yield_now();
                    }
                    let id = u64::from(qp.number()) << 32 | n;
                    let data = [1u8; 8];
                    qp.post_send(&SendRequest::send(&data).id(id))
                        .expect("room");
                    s.model.complete(s.cq.number(), sent(qp.number(), n as u16));
                }
                posting.fetch_sub(1, std::sync::atomic::Ordering::AcqRel);
                // its completions are taken before it goes
                while qp.send_room() < 8 {
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..2 {
            let (s, all) = (&s, &all);
            scope.spawn(move || {
                while all.lock().expect("lock").len() < 3 * POSTS as usize {
                    let mut some = vec![];
                    s.cq.poll(4, &mut some).expect("poll");
                    all.lock()
                        .expect("lock")
                        .extend(some.into_iter().map(|c| c.id));
                }
            });
        }
    });
    let mut all = all.into_inner().expect("lock");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 3 * POSTS as usize);
}
