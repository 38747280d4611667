#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
constexpr auto mean = at::Reduction::Mean;

std::vector<Case> network_cases() {
  std::vector<Case> cases;
  const at::Tensor x = normal({2, 4, 6}), w = normal({6}), b = normal({6}),
                   image = normal({2, 4, 6, 6});
  const at::Tensor logits = normal({5, 7}), target = below(7, {5}), p = unit({5, 7}),
                   q = unit({5, 7});
  TUPLE("native_layer_norm", IN(x, w, b), at::native_layer_norm(t[0], {6}, t[1], t[2], 1e-5));
  TUPLE("native_layer_norm.plain", IN(x), at::native_layer_norm(t[0], {4, 6}, {}, {}, 1e-5));
  TUPLE(
      "native_layer_norm_backward",
      IN(normal({2, 4, 6}), x, normal({2, 4, 1}), unit({2, 4, 1}), w, b),
      at::native_layer_norm_backward(t[0], t[1], {6}, t[2], t[3], t[4], t[5], {true, true, true}));
  TUPLE("native_group_norm", IN(x, normal({4}), normal({4})),
        at::native_group_norm(t[0], t[1], t[2], 2, 4, 6, 2, 1e-5));
  TUPLE(
      "native_group_norm_backward",
      IN(normal({2, 4, 6}), x, normal({2, 2}), unit({2, 2}), normal({4})),
      at::native_group_norm_backward(t[0], t[1], t[2], t[3], t[4], 2, 4, 6, 2, {true, true, true}));
  TUPLE("native_batch_norm", IN(x, normal({4}), normal({4}), normal({4}), unit({4})),
        at::native_batch_norm(t[0], t[1], t[2], t[3], t[4], true, 0.1, 1e-5));
  TUPLE("native_batch_norm.eval", IN(x, normal({4}), normal({4}), normal({4}), unit({4})),
        at::native_batch_norm(t[0], t[1], t[2], t[3], t[4], false, 0.1, 1e-5));
  TUPLE("native_batch_norm_backward",
        IN(normal({2, 4, 6}), x, normal({4}), normal({4}), unit({4}), normal({4}), unit({4})),
        at::native_batch_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], true, 1e-5,
                                       {true, true, true}));
  CALL("rms_norm", IN(x, w), at::rms_norm(t[0], {6}, t[1]));
  CALL("mse_loss_backward", IN(at::scalar_tensor(1.0f), p, q),
       at::mse_loss_backward(t[0], t[1], t[2], mean));
  CALL("smooth_l1_loss_backward", IN(at::scalar_tensor(1.0f), p, q),
       at::smooth_l1_loss_backward(t[0], t[1], t[2], mean, 1));
  CALL("huber_loss_backward", IN(at::scalar_tensor(1.0f), p, q),
       at::huber_loss_backward(t[0], t[1], t[2], mean, 1));
  CALL("binary_cross_entropy", IN(p, q), at::binary_cross_entropy(t[0], t[1]));
  CALL("binary_cross_entropy_backward", IN(at::scalar_tensor(1.0f), p, q),
       at::binary_cross_entropy_backward(t[0], t[1], t[2]));
  CALL("binary_cross_entropy_with_logits", IN(logits, q),
       at::binary_cross_entropy_with_logits(t[0], t[1]));
  CALL("kl_div", IN(p.log(), q), at::kl_div(t[0], t[1]));
  CALL("nll_loss", IN(at::log_softmax(logits, 1), target), at::nll_loss(t[0], t[1]));
  CALL("nll_loss.weight", IN(at::log_softmax(logits, 1), target, unit({7})),
       at::nll_loss(t[0], t[1], t[2]));
  CALL("nll_loss_backward", IN(at::scalar_tensor(1.0f), logits, target, at::scalar_tensor(5.0f)),
       at::nll_loss_backward(t[0], t[1], t[2], {}, mean, -100, t[3]));
  CALL("cross_entropy", IN(logits, target),
       at::cross_entropy_loss(t[0], t[1], {}, mean, -100, 0.1));
  CALL("cross_entropy.none", IN(logits, target),
       at::cross_entropy_loss(t[0], t[1], {}, at::Reduction::None));
  CALL("multi_margin_loss", IN(logits, target), at::multi_margin_loss(t[0], t[1]));
  CALL("cosine_similarity", IN(logits, p), at::cosine_similarity(t[0], t[1]));
  CALL("avg_pool2d", IN(image), at::avg_pool2d(t[0], 2));
  CALL("avg_pool2d_backward", IN(normal({2, 4, 3, 3}), image),
       at::avg_pool2d_backward(t[0], t[1], 2, 2, 0, false, true, std::nullopt));
  TUPLE("max_pool2d", IN(image), at::max_pool2d_with_indices(t[0], 2));
  CALL("adaptive_avg_pool2d", IN(image), at::adaptive_avg_pool2d(t[0], {3, 2}));
  CALL("adaptive_max_pool2d", IN(image), std::get<0>(at::adaptive_max_pool2d(t[0], {3, 2})));
  CALL("upsample_nearest2d", IN(image), at::upsample_nearest2d(t[0], {12, 12}));
  CALL("upsample_bilinear2d", IN(image), at::upsample_bilinear2d(t[0], {9, 9}, false));
  CALL("upsample_bicubic2d", IN(image), at::upsample_bicubic2d(t[0], {9, 9}, true));
  CALL("reflection_pad2d", IN(image), at::reflection_pad2d(t[0], {1, 1, 2, 2}));
  CALL("replication_pad2d", IN(image), at::replication_pad2d(t[0], {1, 1, 2, 2}));
  CALL("im2col", IN(image), at::im2col(t[0], {3, 3}, {1, 1}, {0, 0}, {1, 1}));
  CALL("col2im", IN(normal({2, 36, 16})), at::col2im(t[0], {6, 6}, {3, 3}, {1, 1}, {0, 0}, {1, 1}));
  CALL("grid_sampler_2d", IN(image, unit({2, 3, 3, 2})),
       at::grid_sampler_2d(t[0], t[1], 0, 0, false));
  CALL("pixel_shuffle", IN(image), at::pixel_shuffle(t[0], 2));
  CALL("channel_shuffle", IN(image), at::channel_shuffle(t[0], 2));
  CALL("weight_norm", IN(normal({5, 7}), unit({5, 1})),
       std::get<0>(at::_weight_norm_interface(t[0], t[1])));
  CALL("_slow_conv2d", IN(image, normal({3, 4, 3, 3}), normal({3})),
       at::_slow_conv2d_forward(t[0], t[1], {3, 3}, t[2], 1, 0));
  CALL("sdpa.math", IN(normal({1, 2, 5, 8}), normal({1, 2, 5, 8}), normal({1, 2, 5, 8})),
       std::get<0>(at::_scaled_dot_product_attention_math(t[0], t[1], t[2], {}, 0, true)));
  return cases;
}

// Lists of tensors: foreach and the fused optimizers. The inputs are equal thirds (or more):
// parameters, gradients, states.
std::vector<Case> list_cases() {
  std::vector<Case> cases;
  const Tensors three{normal({3, 4}), normal({5}),  normal({0}), normal({3, 4}), normal({5}),
                      normal({0}),    unit({3, 4}), unit({5}),   unit({0})};
  static constexpr auto part = [](const Tensors& t, int i) {
    return Tensors(t.begin() + 3 * i, t.begin() + 3 * i + 3);
  };
#define LISTS(label, ...) \
  add(                    \
      cases, label, three, [](const Tensors& t) -> Tensors { return __VA_ARGS__; }, true, false)
  LISTS("_foreach_add.Scalar", at::_foreach_add(part(t, 0), 2));
  LISTS("_foreach_add.List", at::_foreach_add(part(t, 0), part(t, 1), 0.5));
  LISTS("_foreach_sub", at::_foreach_sub(part(t, 0), part(t, 1)));
  LISTS("_foreach_mul", at::_foreach_mul(part(t, 0), part(t, 1)));
  LISTS("_foreach_mul.ScalarList", at::_foreach_mul(part(t, 0), {1.0, 2.0, 3.0}));
  LISTS("_foreach_div", at::_foreach_div(part(t, 0), part(t, 2)));
  LISTS("_foreach_sqrt", at::_foreach_sqrt(part(t, 2)));
  LISTS("_foreach_exp", at::_foreach_exp(part(t, 0)));
  LISTS("_foreach_abs", at::_foreach_abs(part(t, 0)));
  LISTS("_foreach_neg", at::_foreach_neg(part(t, 0)));
  LISTS("_foreach_reciprocal", at::_foreach_reciprocal(part(t, 2)));
  LISTS("_foreach_maximum", at::_foreach_maximum(part(t, 0), part(t, 1)));
  LISTS("_foreach_lerp", at::_foreach_lerp(part(t, 0), part(t, 1), 0.3));
  LISTS("_foreach_norm", at::_foreach_norm({t[0], t[1]}));
  LISTS("_foreach_addcmul", at::_foreach_addcmul(part(t, 0), part(t, 1), part(t, 2), 0.5));
  LISTS("_foreach_addcdiv", at::_foreach_addcdiv(part(t, 0), part(t, 1), part(t, 2), 0.5));
  IN_PLACE("_foreach_add_", three, at::_foreach_add_(part(t, 0), part(t, 1), 2));
  IN_PLACE("_foreach_mul_", three, at::_foreach_mul_(part(t, 0), 0.5));
  IN_PLACE("_foreach_zero_", three, at::_foreach_zero_(part(t, 0)));
  IN_PLACE("_foreach_sqrt_", three, at::_foreach_sqrt_(part(t, 2)));
  IN_PLACE("_foreach_addcdiv_", three,
           at::_foreach_addcdiv_(part(t, 0), part(t, 1), part(t, 2), 0.5));
  IN_PLACE("_foreach_addcmul_", three,
           at::_foreach_addcmul_(part(t, 0), part(t, 1), part(t, 2), 0.5));
  IN_PLACE("_foreach_lerp_", three, at::_foreach_lerp_(part(t, 0), part(t, 1), 0.3));
  IN_PLACE("_foreach_copy_", three, at::_foreach_copy_(part(t, 0), part(t, 1)));
  IN_PLACE("_foreach_pow_", three, at::_foreach_pow_(part(t, 2), 2));
  IN_PLACE("_foreach_clamp_min_", three, at::_foreach_clamp_min_(part(t, 0), 0));
  IN_PLACE("_fused_sgd_", three,
           at::_fused_sgd_({t[0], t[1]}, {t[3], t[4]}, {t[6], t[7]}, 0.01, 0.9, 0.1, 0, false,
                           false, false));
  static constexpr auto steps = [](const Tensors& t, std::size_t count) {
    return Tensors(count, at::ones({}, t[0].options()));
  };
  const Tensors adam{normal({3, 4}), normal({5}), normal({3, 4}), normal({5}),
                     normal({3, 4}), normal({5}), unit({3, 4}),   unit({5})};
  IN_PLACE("_fused_adam_", adam,
           at::_fused_adam_({t[0], t[1]}, {t[2], t[3]}, {t[4], t[5]}, {t[6], t[7]}, {}, steps(t, 2),
                            1e-2, 0.9, 0.99, 0.1, 1e-8, false, false));
  IN_PLACE("_fused_adamw_", adam,
           at::_fused_adamw_({t[0], t[1]}, {t[2], t[3]}, {t[4], t[5]}, {t[6], t[7]}, {},
                             steps(t, 2), 1e-2, 0.9, 0.99, 0.1, 1e-8, false, true));
  IN_PLACE("_fused_adagrad_", IN(normal({4}), normal({4}), unit({4})),
           at::_fused_adagrad_({t[0]}, {t[1]}, {t[2]}, steps(t, 1), 1e-2, 0, 0, 1e-8, false));
  IN_PLACE("_amp_foreach_non_finite_check_and_unscale_",
           IN(normal({4}), normal({3}), at::zeros({1}), at::ones({1}) / 8),
           at::_amp_foreach_non_finite_check_and_unscale_({t[0], t[1]},
                                                          const_cast<at::Tensor&>(t[2]), t[3]));
  IN_PLACE("_amp_update_scale_",
           IN(at::full({1}, 65536.0f), at::zeros({1}, at::kInt), at::zeros({1})),
           at::_amp_update_scale_(const_cast<at::Tensor&>(t[0]), const_cast<at::Tensor&>(t[1]),
                                  t[2], 2, 0.5, 1));
  return cases;
}

}  // namespace tidemark::operators
