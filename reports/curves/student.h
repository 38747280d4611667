// Student's t distribution: how far a mean lies from zero by chance, where the variance is known
// from few figures only.
#pragma once

namespace tidemark {

/// The t that |T| exceeds with probability `p` (0 < p < 1), T of `freedom` degrees (> 0).
double student_quantile(double p, double freedom);
/// P(|T| > t), to full relative precision far out in the tails.
double student_tail(double t, double freedom);
/// The z that the absolute value of a normal variable exceeds with probability `p`.
double normal_quantile(double p);

}  // namespace tidemark
