// the Rust function has no `Out` parameter and no returned value for this result
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: int) -> int")] //~
    fn f(_: i64) {}
}
fn main() {}
