// parameter 1 of the Rust function is `&[f64]`, but the argument 'x' is 'f32[n] c': the dtype is another one
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c)")] //~
    fn f(_: &[f64]) {}
}
fn main() {}
