//! Identifiers: reserved words, Rust type name to module name.
const KEYWORDS: &str = " accept_on alias always always_comb always_ff always_latch and assert assign assume automatic \
before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos \
config const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable dist \
do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface \
endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask enum event eventually \
expect export extends extern final first_match for force foreach forever fork forkjoin function generate genvar global \
highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include initial inout input inside \
instance int integer interconnect interface intersect join join_any join_none large let liblist library local localparam \
logic longint macromodule matches medium modport module nand negedge nettype new nexttime nmos nor noshowcancelled not \
notif0 notif1 null or output package packed parameter pmos posedge primitive priority program property protected pull0 \
pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime \
ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime \
s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify specparam static \
string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on table tagged task this \
throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique \
unique0 unsigned until until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while \
wildcard wire with within wor xnor xor \
char short long double float auto delete friend goto namespace operator private public register switch template throw try using volatile ";

/// What Verilator warns about besides: words of C++ and of its library.
const CPP: &str = " alignas alignof and_eq asm atomic bitand bitor bool catch char16_t char32_t class co_await co_return co_yield compl \
concept consteval constexpr constinit const_cast decltype deque dynamic_cast explicit export false inline int8_t list map mutable \
noexcept nullptr pair queue reinterpret_cast requires set signal sizeof static_assert static_cast thread_local true typeid typename \
unordered_map vector wchar_t ";

fn is_keyword(s: &str) -> bool {
    KEYWORDS.contains(&format!(" {s} "))
}
/// A name that is free to differ from its Rust form: reserved words get a `_`. Ports are not free.
pub fn safe(s: &str) -> String {
    if is_keyword(s) || CPP.contains(&format!(" {s} ")) {
        format!("{s}_")
    } else {
        s.to_owned()
    }
}
pub fn check_ident(s: &str) -> Result<(), String> {
    let ok = s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !ok {
        return Err(format!("`{s}` is not a plain identifier"));
    }
    if is_keyword(s) {
        return Err(format!("`{s}` is a reserved word of SystemVerilog or C++"));
    }
    Ok(())
}

/// `a::Fifo<b::Beat, core::Bits<8>, 5>` -> (`Fifo`, `_Beat_Bits8_5`)
pub fn module_name(ty: &str) -> (String, String) {
    let (head, args) = ty
        .split_once('<')
        .map_or((ty, ""), |(h, a)| (h, a.trim_end_matches('>')));
    let last = |s: &str| s.rsplit("::").next().unwrap_or(s).to_owned();
    let mut out = String::new();
    for a in args
        .split([',', '<', '>'])
        .map(str::trim)
        .filter(|a| !a.is_empty())
    {
        let a = match last(a).as_str() {
            "bool" => "Bit".to_owned(),
            x => x.to_owned(),
        };
        let joins = a.starts_with(|c: char| c.is_ascii_digit()) && out.ends_with("Bits"); // Bits<8> -> Bits8
        if !joins {
            out.push('_');
        }
        out += &a;
    }
    (last(head), out)
}
