//! What `cargo xtask fuzz vfio-user` has found worth keeping, played again. A program of its own: it looks at everything
//! the process holds.
use rocenic_testbench::vfio_fuzz::{Fuzzer, corpus_file, read};

#[test]
fn hostile_clients_of_the_corpus_leave_a_nic_as_new_and_nothing_behind() {
    let library = rocenic_sim::nic::library(false).expect("the model");
    let mut fuzzer = Fuzzer::new(&library).expect("a server");
    let cases = read(&corpus_file()).expect("the corpus");
    assert!(cases.len() > 20, "{} cases", cases.len());
    for (n, case) in cases.iter().enumerate() {
        let played = fuzzer.play(case);
        played.unwrap_or_else(|e| panic!("line {} of the corpus: {e:#}", n + 1));
    }
    fuzzer.audit().expect("nothing is left");
    assert!(
        fuzzer.features() > cases.len(),
        "each case shows something of its own"
    );
}
