// the number of dimensions is another one
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n, m])")] //~
    fn f(_: View<f32, 1>) {}
}
fn main() {}
