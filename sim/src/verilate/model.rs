//! A loaded model: typed ports as pointers into it, `eval`, waveform windows. All `unsafe` of the simulator is here.
use super::build::{self, Options, PortSpec, Source, XAssign};
use super::{Error, tools};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

type Handle = *mut c_void;

/// A compiled model, loaded once; makes any number of [`Model`]s, in any thread.
pub struct Library {
    new: unsafe extern "C" fn(*const c_char, c_int, c_int) -> Handle,
    delete: unsafe extern "C" fn(Handle),
    eval: unsafe extern "C" fn(Handle),
    set_time: unsafe extern "C" fn(Handle, u64),
    port: unsafe extern "C" fn(Handle, u32) -> Handle,
    port_size: unsafe extern "C" fn(Handle, u32) -> u32,
    trace_open: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    trace_dump: unsafe extern "C" fn(Handle, u64),
    trace_close: unsafe extern "C" fn(Handle),
    top: String,
    ports: Vec<PortSpec>,
    trace: bool,
    random_reset: bool,
    // keeps the code behind the pointers above mapped
    _code: libloading::Library,
}

impl Library {
    /// Builds the model, or takes it from the cache, and loads it.
    ///
    /// # Errors
    /// Missing tools, Verilog that Verilator refuses (with file and line), a port list that does not match.
    pub fn build(verilog: &Source, options: &Options) -> Result<Arc<Library>, Error> {
        let so = build::build(verilog, options, tools::ensure()?)?;
        Library::load(&so, verilog, options)
    }

    fn load(path: &Path, verilog: &Source, options: &Options) -> Result<Arc<Library>, Error> {
        let fail = |source| Error::Load {
            path: path.to_owned(),
            source,
        };
        // SAFETY: the library was compiled by `build` from Verilator's output and our shim; its only constructors
        // are those of the C++ runtime.
        let code = unsafe { libloading::Library::new(path) }.map_err(fail)?;
        macro_rules! symbol {
            ($n: literal) => {
                // SAFETY: `shim.rs` defines this symbol with the type of the field it is stored in, and `_code`
                // lives as long as the pointer.
                *unsafe { code.get($n) }.map_err(fail)?
            };
        }
        Ok(Arc::new(Library {
            new: symbol!(b"vs_new\0"),
            delete: symbol!(b"vs_delete\0"),
            eval: symbol!(b"vs_eval\0"),
            set_time: symbol!(b"vs_set_time\0"),
            port: symbol!(b"vs_port\0"),
            port_size: symbol!(b"vs_port_size\0"),
            trace_open: symbol!(b"vs_trace_open\0"),
            trace_dump: symbol!(b"vs_trace_dump\0"),
            trace_close: symbol!(b"vs_trace_close\0"),
            top: verilog.top.clone(),
            ports: verilog.ports.clone(),
            trace: options.trace_fst,
            random_reset: options.x_assign == XAssign::Unique,
            _code: code,
        }))
    }

    pub fn ports(&self) -> &[PortSpec] {
        &self.ports
    }

    pub fn top(&self) -> &str {
        &self.top
    }
}

/// Owns the C++ object; ports keep it alive.
struct Instance {
    handle: Handle,
    library: Arc<Library>,
}
impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: `handle` came from `vs_new`, is deleted only here, and no port is left (each holds this instance).
        unsafe {
            (self.library.trace_close)(self.handle);
            (self.library.delete)(self.handle);
        }
    }
}

mod sealed {
    pub trait Sealed {}
}
/// Types a port can have: plain data, any bit pattern valid, size as Verilator lays it out
/// (1–8 bits `u8`, to 16 `u16`, to 32 `u32`, to 64 `u64`, above that 32-bit words: `[u32; N]` or `[u64; N]`).
pub trait PortValue: Copy + sealed::Sealed {
    /// The bits above `width` are zero; Verilator relies on it for inputs.
    fn fits(&self, width: usize) -> bool;
}
macro_rules! port_value {
    ($($t: ty)*) => { $(
        impl sealed::Sealed for $t {}
        impl PortValue for $t {
            #[inline]
            fn fits(&self, width: usize) -> bool {
                width >= <$t>::BITS as usize || self >> width == 0
            }
        }
        impl<const N: usize> sealed::Sealed for [$t; N] {}
    )* };
}
port_value!(u8 u16 u32 u64);
macro_rules! port_array {
    ($($t: ty)*) => { $(
        impl<const N: usize> PortValue for [$t; N] {
            fn fits(&self, width: usize) -> bool {
                let bits = <$t>::BITS as usize;
                self.iter().enumerate().all(|(i, w)| match width.saturating_sub(i * bits) {
                    0 => *w == 0,
                    n => w.fits(n),
                })
            }
        }
    )* };
}
port_array!(u32 u64);

/// A port of one model: `get` and `set` are a plain load and store. Keeps its model alive.
pub struct Port<T> {
    at: *mut T,
    width: usize,
    _model: Rc<Instance>,
}
impl<T> Clone for Port<T> {
    fn clone(&self) -> Self {
        Port {
            at: self.at,
            width: self.width,
            _model: self._model.clone(),
        }
    }
}
impl<T: PortValue> Port<T> {
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: `at` points at a member of the live C++ object whose size was checked against `T` when the port
        // was made; wide members are only 4-byte aligned, hence unaligned; any bits are a valid `T`; the model is
        // used by this thread alone (`Rc` is not `Send`).
        unsafe { self.at.read_unaligned() }
    }
    #[inline(always)]
    pub fn set(&self, v: T) {
        debug_assert!(
            v.fits(self.width),
            "value exceeds the {} bits of the port",
            self.width
        );
        // SAFETY: as in `get`; nothing holds a Rust reference into the model.
        unsafe { self.at.write_unaligned(v) }
    }
    /// Bits.
    pub fn width(&self) -> usize {
        self.width
    }
}
impl Port<u8> {
    #[inline(always)]
    pub fn high(&self) -> bool {
        self.get() != 0
    }
}

/// A port of up to 64 bits, whatever its size in the model: a load or store behind one branch.
#[derive(Clone)]
pub struct UintPort {
    at: *mut u8,
    size: u8,
    width: u8,
    _model: Rc<Instance>,
}
impl UintPort {
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // SAFETY: `at` points at `size` bytes of the live model, aligned as C++ aligns an integer of that size.
        unsafe {
            match self.size {
                1 => u64::from(self.at.read()),
                2 => u64::from(self.at.cast::<u16>().read()),
                4 => u64::from(self.at.cast::<u32>().read()),
                _ => self.at.cast::<u64>().read(),
            }
        }
    }
    /// Bits above the width are dropped.
    #[inline(always)]
    pub fn set(&self, v: u64) {
        let v = v & (!0 >> (64 - self.width));
        // SAFETY: as in `get`.
        unsafe {
            match self.size {
                1 => self.at.write(v as u8),
                2 => self.at.cast::<u16>().write(v as u16),
                4 => self.at.cast::<u32>().write(v as u32),
                _ => self.at.cast::<u64>().write(v),
            }
        }
    }
    #[inline(always)]
    pub fn high(&self) -> bool {
        self.get() != 0
    }
    pub fn width(&self) -> usize {
        usize::from(self.width)
    }
}

/// A port of any width as little-endian 64-bit words, for code that finds ports by name.
#[derive(Clone)]
pub struct AnyPort {
    at: *mut u8,
    size: usize,
    width: usize,
    _model: Rc<Instance>,
}
impl AnyPort {
    pub fn width(&self) -> usize {
        self.width
    }
    pub fn get(&self) -> Vec<u64> {
        let mut words = vec![0u64; self.size.div_ceil(8)];
        // SAFETY: `at` points at `size` bytes of the live model (checked at load), `words` has at least as many;
        // the host is little-endian as the model is.
        unsafe {
            self.at
                .copy_to_nonoverlapping(words.as_mut_ptr().cast(), self.size)
        };
        words
    }
    /// Bits above the width are dropped; missing words are zero.
    pub fn set(&self, words: &[u64]) {
        let mut full = vec![0u64; self.size.div_ceil(8)];
        for (i, w) in full.iter_mut().enumerate() {
            let left = self.width.saturating_sub(i * 64);
            let mask = if left >= 64 { !0 } else { (1u64 << left) - 1 };
            *w = words.get(i).copied().unwrap_or(0) & mask;
        }
        // SAFETY: as in `get`, the other way.
        unsafe {
            self.at
                .copy_from_nonoverlapping(full.as_ptr().cast(), self.size)
        };
    }
}
const _: () = assert!(
    cfg!(target_endian = "little"),
    "ports are read as little-endian words"
);

/// One instance of a model. Not `Send`: it is built and evaluated on one thread.
pub struct Model {
    instance: Rc<Instance>,
    tracing: bool,
    last_dump: Option<u64>,
}
impl Model {
    /// `seed` gives the initial contents of registers and RAMs when built with [`XAssign::Unique`].
    ///
    /// # Errors
    /// A name with a NUL; a port whose size in the model is not that of its declared width.
    pub fn new(library: &Arc<Library>, name: &str, seed: u32) -> Result<Model, Error> {
        let c_name = CString::new(name).map_err(|_| Error::Name(name.into()))?;
        // Verilator wants a positive int that is not 0
        let seed = (seed & 0x7fff_ffff).max(1) as c_int;
        let rand_reset = if library.random_reset { 2 } else { 0 };
        // SAFETY: `vs_new` copies the name and returns an object that `Instance` owns.
        let handle = unsafe { (library.new)(c_name.as_ptr(), rand_reset, seed) };
        let model = Model {
            instance: Rc::new(Instance {
                handle,
                library: library.clone(),
            }),
            tracing: false,
            last_dump: None,
        };
        for (i, p) in library.ports.iter().enumerate() {
            let (size, rust) = (model.size_of(i), verilator_size(p.width));
            if size != rust {
                return Err(model.size_error(p, size, rust));
            }
        }
        Ok(model)
    }

    fn size_of(&self, index: usize) -> usize {
        // SAFETY: the handle is live; the shim answers 0 for an unknown index.
        unsafe { (self.instance.library.port_size)(self.instance.handle, index as u32) as usize }
    }
    fn size_error(&self, p: &PortSpec, size: usize, rust: usize) -> Error {
        Error::PortSize {
            top: self.instance.library.top.clone(),
            port: p.name.clone(),
            width: p.width,
            size,
            rust,
        }
    }
    fn find(&self, name: &str) -> Result<(usize, &PortSpec, *mut u8), Error> {
        let lib = &self.instance.library;
        let Some((i, p)) = lib.ports.iter().enumerate().find(|(_, p)| p.name == name) else {
            let have: Vec<&str> = lib.ports.iter().map(|p| p.name.as_str()).collect();
            return Err(Error::NoPort {
                top: lib.top.clone(),
                port: name.into(),
                have: have.join(" "),
            });
        };
        // SAFETY: the handle is live and the index is one the shim was generated with.
        let at = unsafe { (lib.port)(self.instance.handle, i as u32) };
        Ok((i, p, at.cast()))
    }

    /// A typed handle; look ports up once, not in the clock loop.
    ///
    /// # Errors
    /// No such port, or `T` has another size than the port.
    pub fn port<T: PortValue>(&self, name: &str) -> Result<Port<T>, Error> {
        let (i, p, at) = self.find(name)?;
        let size = self.size_of(i);
        if size != size_of::<T>() {
            return Err(self.size_error(p, size, size_of::<T>()));
        }
        Ok(Port {
            at: at.cast(),
            width: p.width,
            _model: self.instance.clone(),
        })
    }

    /// # Errors
    /// No such port.
    pub fn any_port(&self, name: &str) -> Result<AnyPort, Error> {
        let (i, p, at) = self.find(name)?;
        Ok(AnyPort {
            at,
            size: self.size_of(i),
            width: p.width,
            _model: self.instance.clone(),
        })
    }

    /// # Errors
    /// No such port, or it is wider than 64 bits.
    pub fn uint_port(&self, name: &str) -> Result<UintPort, Error> {
        let (i, p, at) = self.find(name)?;
        let size = self.size_of(i);
        if p.width == 0 || p.width > 64 {
            return Err(self.size_error(p, size, 8));
        }
        Ok(UintPort {
            at,
            size: size as u8,
            width: p.width as u8,
            _model: self.instance.clone(),
        })
    }

    pub fn ports(&self) -> &[PortSpec] {
        &self.instance.library.ports
    }

    /// Settles the model after inputs or the clock changed.
    #[inline(always)]
    pub fn eval(&mut self) {
        // SAFETY: the handle is live, and `&mut self` with `!Send` makes this the only call into it.
        unsafe { (self.instance.library.eval)(self.instance.handle) }
    }

    /// Opens a waveform window; any number may follow each other, each in its own file.
    ///
    /// # Errors
    /// Built without `trace_fst`, or the file cannot be written.
    pub fn trace_open(&mut self, path: &Path) -> Result<(), Error> {
        let lib = &self.instance.library;
        if !lib.trace {
            return Err(Error::NoTrace(lib.top.clone()));
        }
        self.trace_close();
        let text = path.to_string_lossy();
        let c_path = CString::new(text.as_bytes()).map_err(|_| Error::Name(text.to_string()))?;
        // SAFETY: live handle, NUL-terminated path.
        let open =
            unsafe { (self.instance.library.trace_open)(self.instance.handle, c_path.as_ptr()) };
        if open == 0 {
            return Err(Error::TraceOpen(path.to_owned()));
        }
        self.tracing = true;
        self.last_dump = None;
        Ok(())
    }

    /// Records the signals at `time`, if a window is open. A time not above the last one is ignored: FST wants them
    /// to increase strictly.
    #[inline]
    pub fn trace_dump(&mut self, time: u64) {
        if self.tracing && self.last_dump.is_none_or(|t| time > t) {
            self.last_dump = Some(time);
            // SAFETY: live handle.
            unsafe {
                (self.instance.library.set_time)(self.instance.handle, time);
                (self.instance.library.trace_dump)(self.instance.handle, time);
            }
        }
    }

    pub fn trace_close(&mut self) {
        if std::mem::take(&mut self.tracing) {
            // SAFETY: live handle.
            unsafe { (self.instance.library.trace_close)(self.instance.handle) }
        }
    }

    pub fn tracing(&self) -> bool {
        self.tracing
    }
}
impl Drop for Model {
    fn drop(&mut self) {
        self.trace_close();
    }
}

/// Bytes of Verilator's CData, SData, IData, QData or VlWide.
fn verilator_size(width: usize) -> usize {
    match width {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => width.div_ceil(32) * 4,
    }
}
