// the signature does not parse: expected a type f(x: float33) ^
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: float33)")] //~
    fn f(_: f64) {}
}
fn main() {}
