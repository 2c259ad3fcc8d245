// the Rust function returns more than its signature
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: int) -> int")] //~
    fn f(_: i64) -> (i64, i64) { (1, 2) }
}
fn main() {}
