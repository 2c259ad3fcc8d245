// write the function: shape = name
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f() -> f32[?]", shape)] //~
    fn f(_: Open<f32, 1>) {}
}
fn main() {}
