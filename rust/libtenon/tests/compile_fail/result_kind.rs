// the Rust function returns `f64`, but this result is 'int': that is another kind of value
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: int) -> int")] //~
    fn f(_: i64) -> f64 { 1.0 }
}
fn main() {}
