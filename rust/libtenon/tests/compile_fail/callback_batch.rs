// an argument of a callback is not a batch: write '*b' instead of '**b'
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(g: callable('(x: f32[**b])'))")] //~
    fn f(_: Callback<(AnyTensor<'static>,), ()>) {}
}
fn main() {}
