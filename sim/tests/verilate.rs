//! The binding itself: emitted RTL runs in Verilator; wide ports, waveform windows, instances, errors.
use rocenic_hdl::prim::Fifo;
use rocenic_sim::verilate::*;
use rust_hdl_core::prelude::*;

type Fifo512 = Fifo<Bits<512>, 4, 5>;

fn fifo() -> Source {
    let mut block = Fifo512::default();
    block.connect_all();
    Source::from_block(&block).unwrap()
}

struct Pins {
    clock: Port<u8>,
    reset: Port<u8>,
    i_valid: Port<u8>,
    i_data: Port<[u64; 8]>,
    o_valid: Port<u8>,
    o_ready: Port<u8>,
    o_data: Port<[u64; 8]>,
}
impl Pins {
    fn new(m: &Model) -> Pins {
        let bit = |n| m.port(n).unwrap();
        Pins {
            clock: bit("clock"),
            reset: bit("reset"),
            i_valid: bit("i_valid"),
            i_data: m.port("i_data").unwrap(),
            o_valid: bit("o_valid"),
            o_ready: bit("o_ready"),
            o_data: m.port("o_data").unwrap(),
        }
    }
    fn tick(&self, m: &mut Model, time: &mut u64) {
        for level in [0, 1] {
            self.clock.set(level);
            m.eval();
            m.trace_dump(*time);
            *time += 2000;
        }
    }
}

/// One word through the FIFO; the clocks it took.
fn one_word(m: &mut Model, time: &mut u64) -> u32 {
    let p = Pins::new(m);
    p.reset.set(1);
    for _ in 0..4 {
        p.tick(m, time);
    }
    p.reset.set(0);
    let word = std::array::from_fn(|i| 0x0123_4567_89ab_cdef_u64.rotate_left(i as u32 * 8));
    p.i_data.set(word);
    p.i_valid.set(1);
    p.tick(m, time);
    p.i_valid.set(0);
    let mut clocks = 1;
    while !p.o_valid.high() {
        p.tick(m, time);
        clocks += 1;
        assert!(clocks < 10, "the word never comes out");
    }
    assert_eq!(p.o_data.get(), word);
    p.o_ready.set(1);
    p.tick(m, time);
    p.o_ready.set(0);
    clocks
}

#[test]
fn a_512_bit_word_passes_an_emitted_fifo_in_two_instances_and_two_threads() {
    let lib = Library::build(&fifo(), &Options::default()).unwrap();
    let run = |lib: &std::sync::Arc<Library>, seed| {
        let mut a = Model::new(lib, "a", seed).unwrap();
        let mut b = Model::new(lib, "b", seed + 1).unwrap();
        assert_eq!(one_word(&mut a, &mut 0), one_word(&mut b, &mut 0));
    };
    run(&lib, 1);
    std::thread::scope(|s| {
        s.spawn(|| run(&lib, 3));
        s.spawn(|| run(&lib, 5));
    });
}

#[test]
fn ports_outlive_their_model_and_any_port_sees_the_same_bits() {
    let lib = Library::build(&fifo(), &Options::default()).unwrap();
    let m = Model::new(&lib, "a", 1).unwrap();
    let typed = m.port::<[u64; 8]>("i_data").unwrap();
    let any = m.any_port("i_data").unwrap();
    any.set(&[7, 0, 9]);
    drop(m);
    assert_eq!(typed.get(), [7, 0, 9, 0, 0, 0, 0, 0]);
    assert_eq!(any.get(), typed.get());
}

#[test]
fn each_waveform_window_is_a_file_of_its_own() {
    let options = Options {
        trace_fst: true,
        ..Default::default()
    };
    let lib = Library::build(&fifo(), &options).unwrap();
    let mut m = Model::new(&lib, "a", 1).unwrap();
    let dir = target_dir().join("verilate");
    let mut time = 0;
    for n in 0..2 {
        let f = dir.join(format!("window{n}-{}.fst", std::process::id()));
        m.trace_open(&f).unwrap();
        one_word(&mut m, &mut time);
        m.trace_close();
        one_word(&mut m, &mut time);
        let len = std::fs::metadata(&f).unwrap().len();
        std::fs::remove_file(&f).unwrap();
        assert!(len > 200, "{}: {len} bytes", f.display());
    }
}

#[test]
fn mistakes_are_errors_that_name_the_place() {
    let mut bad = fifo();
    let last = bad.files.last_mut().unwrap();
    last.1 = last.1.replace("endmodule", "assign = 1;\nendmodule");
    let e = Library::build(&bad, &Options::default())
        .err()
        .unwrap()
        .to_string();
    assert!(e.contains("Fifo_Bits512_4_5.sv:"), "{e}");

    let lib = Library::build(&fifo(), &Options::default()).unwrap();
    let mut m = Model::new(&lib, "a", 1).unwrap();
    let e = m.port::<u8>("tdata").err().unwrap().to_string();
    assert!(e.contains("no port `tdata`") && e.contains("i_data"), "{e}");
    let e = m.port::<u64>("i_data").err().unwrap().to_string();
    assert!(e.contains("512 bits"), "{e}");
    let e = m.trace_open("x.fst".as_ref()).unwrap_err().to_string();
    assert!(e.contains("trace_fst"), "{e}");

    let mut wrong = fifo();
    wrong
        .ports
        .iter_mut()
        .find(|p| p.name == "i_data")
        .unwrap()
        .width = 256;
    let lib = Library::build(&wrong, &Options::default()).unwrap();
    let e = Model::new(&lib, "a", 1).err().unwrap().to_string();
    assert!(e.contains("256 bits in 64 bytes"), "{e}");
}
