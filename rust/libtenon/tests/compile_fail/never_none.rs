// the argument is never None; add '?' to the signature
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: float)")] //~
    fn f(_: Option<f64>) {}
}
fn main() {}
