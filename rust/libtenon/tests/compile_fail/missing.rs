// the Rust function has no parameter for this argument
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c, y: int)")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
