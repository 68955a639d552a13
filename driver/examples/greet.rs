//! Two devices on one wire, from nothing to a message delivered.
//!
//! `rocenic sim serve --nics 2 --socket /tmp/nic` in one terminal, in another one
//! `cargo run -p rocenic-driver --example greet -- vfio-user:/tmp/nic0 vfio-user:/tmp/nic1`
use rocenic_driver::transport::Address;
use rocenic_driver::*;

/// Nanoseconds after which something is wrong.
const LONG: u64 = 10_000_000_000;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let addresses: Vec<Address> = std::env::args()
        .skip(1)
        .map(|a| a.parse())
        .collect::<std::result::Result<_, _>>()?;
    let [left, right] = &addresses[..] else {
        return Err("usage: greet DEVICE DEVICE".into());
    };
    let (a, b) = (Context::open(left.open()?)?, Context::open(right.open()?)?);
    let pmtu = Pmtu::Mtu4096;
    a.set_port(Port {
        mac: [2, 0, 0, 0, 0, 1],
        ipv4: [10, 0, 0, 1].into(),
        pmtu,
    })?;
    b.set_port(Port {
        mac: [2, 0, 0, 0, 0, 2],
        ipv4: [10, 0, 0, 2].into(),
        pmtu,
    })?;

    // each side: protection domain, registered memory, completion queue, queue pair
    let (pd_a, pd_b) = (a.alloc_pd()?, b.alloc_pd()?);
    let (cq_a, cq_b) = (a.create_cq(64)?, b.create_cq(64)?);
    let from = pd_a.alloc_mr(4096, Access::NONE)?;
    let to = pd_b.alloc_mr(4096, Access::LOCAL_WRITE)?;
    let qp_a = pd_a.qp(&cq_a, &cq_a).build()?.init()?;
    let qp_b = pd_b.qp(&cq_b, &cq_b).build()?.init()?;

    // both sides learn of each other and connect
    let (at_a, at_b) = (qp_a.endpoint()?, qp_b.endpoint()?);
    let mut qp_b = qp_b.connect(&Connection::to(at_a))?;
    let mut qp_a = qp_a.connect(&Connection::to(at_b))?;

    // a place for the message, the message, both completions
    qp_b.post_recv(&RecvRequest::new(&[to.all()]).id(1))?;
    from.write(0, b"hello");
    qp_a.post_send(&SendRequest::send(&[from.slice(0..5)?]).id(2))?;
    let sent = cq_a.wait(LONG)?.ok()?;
    assert_eq!(sent.id, 2);
    let got = cq_b.wait(LONG)?.ok()?;
    assert_eq!(got.id, 1);
    let text = to.to_vec(0..got.byte_len as usize);
    println!("{}", String::from_utf8(text)?);
    Ok(())
}
