// is not general enough
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c)")]
    fn f(_: &'static [f32]) {}
}
fn main() {}
