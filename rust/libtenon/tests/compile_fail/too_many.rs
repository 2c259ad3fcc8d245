// the Rust function has more parameters than its signature has arguments and results
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: int)")] //~
    fn f(_: i64, _: i64) {}
}
fn main() {}
