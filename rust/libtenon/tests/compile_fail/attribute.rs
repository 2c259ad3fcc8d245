// the signature does not parse: unknown attribute f(x: f32[n] wr) ^
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] wr)")] //~
    fn f(_: View<f32, 1>) {}
}
fn main() {}
