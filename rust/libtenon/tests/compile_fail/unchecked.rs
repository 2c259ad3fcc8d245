// no rules expected
#![forbid(unsafe_code)]
fn f(_: &[f32]) {}
tenon::export! {
    private mod kernels;
    @ fn f = "f(x: f64[n] c)"; //~
}
fn main() {}
