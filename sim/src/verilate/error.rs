//! What can go wrong between Verilog text and a running model.
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the back end refuses the block:\n{0}")]
    Emit(String),
    #[error("Verilator refuses `{top}`:\n{text}\n(sources: {sources})", sources = sources.display())]
    Verilator {
        top: String,
        text: String,
        sources: PathBuf,
    },
    #[error("`{command}` failed:\n{text}")]
    Command { command: String, text: String },
    #[error("{0}")]
    Tools(String),
    #[error("{path}: cannot load the model: {source}", path = path.display())]
    Load {
        path: PathBuf,
        source: libloading::Error,
    },
    #[error("`{top}` has no port `{port}`; it has: {have}")]
    NoPort {
        top: String,
        port: String,
        have: String,
    },
    #[error(
        "port `{port}` of `{top}` is {width} bits in {size} bytes, the Rust type has {rust} bytes"
    )]
    PortSize {
        top: String,
        port: String,
        width: usize,
        size: usize,
        rust: usize,
    },
    #[error("`{0}` was built without waveforms: set `trace_fst` in the options it is built with")]
    NoTrace(String),
    #[error("cannot open the waveform {path}", path = .0.display())]
    TraceOpen(PathBuf),
    #[error("a name with a NUL byte: {0:?}")]
    Name(String),
}

pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { path, source }
}
