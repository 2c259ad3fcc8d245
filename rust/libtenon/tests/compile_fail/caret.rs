// f(a: float, x: f32[n] c) ^
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(a: float, x: f32[n] c)")] //~
    fn f(_: f64, _: &[f64]) {}
}
fn main() {}
