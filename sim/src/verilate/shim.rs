//! The C++ between the class Verilator generates and the C symbols that `model.rs` loads.
use super::build::PortSpec;
use std::fmt::Write;

/// Verilator writes `__` of a Verilog name as `___05F`.
fn cpp_name(name: &str) -> String {
    name.replace("__", "___05F")
}

pub fn text(top: &str, ports: &[PortSpec], trace: bool) -> String {
    let class = format!("V{}", cpp_name(top));
    let case = |f: &dyn Fn(&str) -> String| {
        ports
            .iter()
            .enumerate()
            .fold(String::new(), |mut o, (i, p)| {
                let _ = writeln!(o, "    case {i}: return {};", f(&cpp_name(&p.name)));
                o
            })
    };
    let addresses = case(&|n| format!("(void*)&t->{n}"));
    let sizes = case(&|n| format!("sizeof(std::remove_reference_t<decltype(t->{n})>)"));
    let (include, member, on) = if trace {
        (
            "#include \"verilated_fst_c.h\"\n",
            " std::unique_ptr<VerilatedFstC> fst;",
            " i->ctx.traceEverOn(true);",
        )
    } else {
        ("", "", "")
    };
    // a closed VerilatedFstC cannot be opened again: one object a window
    let windows = if trace {
        r#"int vs_trace_open(void* p, const char* path) {
  auto* i = (Inst*)p; i->fst.reset(new VerilatedFstC); i->top->trace(i->fst.get(), 99);
  i->fst->open(path); return i->fst->isOpen(); }
void vs_trace_dump(void* p, uint64_t t) { auto* i = (Inst*)p; if (i->fst) i->fst->dump(t); }
void vs_trace_close(void* p) { auto* i = (Inst*)p; if (i->fst) { i->fst->close(); i->fst.reset(); } }
"#
    } else {
        r#"int vs_trace_open(void*, const char*) { return 0; }
void vs_trace_dump(void*, uint64_t) {}
void vs_trace_close(void*) {}
"#
    };
    format!(
        r#"#include "{class}.h"
#include "verilated.h"
{include}#include <memory>
#include <type_traits>
struct Inst {{ VerilatedContext ctx; std::unique_ptr<{class}> top;{member} }};
#pragma GCC visibility push(default)
extern "C" {{
void* vs_new(const char* name, int rand_reset, int seed) {{
  auto* i = new Inst; i->ctx.threads(1); i->ctx.randReset(rand_reset); i->ctx.randSeed(seed);{on}
  i->top.reset(new {class}{{&i->ctx, name}}); return i; }}
void vs_delete(void* p) {{ auto* i = (Inst*)p; i->top->final(); delete i; }}
void vs_eval(void* p) {{ ((Inst*)p)->top->eval(); }}
void vs_set_time(void* p, uint64_t t) {{ ((Inst*)p)->ctx.time(t); }}
{windows}void* vs_port(void* p, unsigned idx) {{ auto* t = ((Inst*)p)->top.get(); (void)t; switch (idx) {{
{addresses}  }} return nullptr; }}
unsigned vs_port_size(void* p, unsigned idx) {{ auto* t = ((Inst*)p)->top.get(); (void)t; switch (idx) {{
{sizes}  }} return 0; }}
}}
#pragma GCC visibility pop
"#
    )
}
