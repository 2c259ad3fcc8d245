// parameter 1 of the Rust function is `i64`, but the argument 'x' is 'float': that is another kind of value
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: float)")] //~
    fn f(_: i64) {}
}
fn main() {}
