// the argument may be None, so take an `Option`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: float?)")] //~
    fn f(_: f64) {}
}
fn main() {}
