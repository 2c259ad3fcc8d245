// the callback may change the bytes, so let the argument be 'u8[n]', and take `Cells`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: bytes, g: callable('(i: int)'))")] //~
    fn f(_: &[u8], _: Callback<(i64,), ()>) {}
}
fn main() {}
