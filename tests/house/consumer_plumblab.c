/* A user of the laboratory: the trainer's settings, which need all three libraries. */
#include <plumb/report.h>
#include <plumb/study.h>
#include <plumb/train.h>

#include <stdlib.h>
#include <string.h>

int main(void)
{
    const plumb_screen screen = plumb_screen_for(stdout);
    char *settings = plumb_train_describe();
    const int good = settings != NULL && strstr(settings, "model.width") != NULL;

    free(settings);
    return good && screen.out == stdout && strlen(plumb_end_name(PLUMB_END_DIED)) > 0 ? 0
                                                                                      : 1;
}
