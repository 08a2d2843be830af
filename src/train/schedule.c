/* Learning rate: linear warm-up, then a cosine from the peak to its final part.  It depends on the
 * step and the settings alone, never on where the run will be stopped.
 */
#include "train/train.h"

#include "plumb/math.h"

double schedule_rate(const trainer *t, int64_t step)
{
    const settings *s = &t->settings;
    const double peak = s->lr * t->request.lr_scale;
    const double warmup = (double)s->warmup * t->request.warmup_scale;
    const double at = (double)step, last = (double)s->steps;

    if (at <= warmup)
        return peak * at / warmup;
    if (at >= last)
        return peak * s->final_lr_ratio;
    const float angle = (float)(3.141592653589793 * (at - warmup) / (last - warmup));
    float cosine;

    plumb_cos(&angle, 1, &cosine);
    return peak *
           (s->final_lr_ratio + (1 - s->final_lr_ratio) * 0.5 * (1 + (double)cosine));
}
