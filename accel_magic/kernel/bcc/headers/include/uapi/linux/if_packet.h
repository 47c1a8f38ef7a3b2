/* Empty: nothing from it is needed. */
